//! Tests of the engine, and helpers for the tests of each vendor's table.

use serde_json::json;

use super::*;

/// Checks each shape of a table. An object with its required fields and one more field passes. It fails with any wrong
/// value of the field, without a required field, and with an unknown field.
pub(crate) fn check_shapes(table: &Table, is_lenient: bool) {
    let checker = Checker::new(table).lenient(is_lenient);
    let all = table.json["shapes"].to_string();
    for (name, shape) in table.json["shapes"].as_object().unwrap() {
        if all.contains(&format!("tagged {name}\"")) || all.contains(&format!("tagged {name} ")) {
            let shapes = shape.as_object().unwrap().values().filter(|kind| kind.is_object());
            shapes.for_each(|shape| check_shape(checker, shape, None));
        } else {
            let is_union = all.contains(&format!("union {name}\""));
            check_shape(checker, shape, is_union.then_some(name));
        }
    }
}

/// Checks one shape. `union` is its name if it is the shape of a union.
fn check_shape(checker: Checker<'_>, shape: &Value, union: Option<&str>) {
    let whole = union.map_or(shape.clone(), |name| format!("union {name}").into());
    let passes = |value: &Value| checker.check("", value, &whole).is_ok();
    let base = if union.is_some() { json!({}) } else { right(checker, shape) };
    let group = |key: &str| shape::words(shape, "exactly one").any(|word| word == key);
    for (key, kind) in fields(shape) {
        if kind.is_object() {
            check_shape(checker, kind, None);
        }
        let name = key.trim_end_matches('!');
        let with = |value: Value| {
            let others = base.as_object().unwrap().clone().into_iter();
            let mut object: Value = others
                .filter(|(other, _)| !group(other) || !group(name))
                .collect::<serde_json::Map<_, _>>()
                .into();
            object[name] = value;
            object
        };
        let good = with(right(checker, kind));
        assert!(passes(&good), "{key}: {kind}: {good}: {:?}", checker.check("", &good, &whole));
        for wrong in wrong(checker, kind) {
            assert!(!passes(&with(wrong.clone())), "{key}: {kind}: {wrong}");
        }
        if key.ends_with('!') {
            let mut without = base.clone();
            without.as_object_mut().unwrap().remove(name);
            assert!(!passes(&without), "without {key}: {without}");
        }
        let mut unknown = good;
        unknown["surprise"] = json!(1);
        let is_open = checker.is_lenient || shape::words(shape, "unchecked").any(|it| it == "*");
        assert_eq!(passes(&unknown), is_open, "{unknown}");
    }
}

fn fields(shape: &Value) -> Vec<(&String, &Value)> {
    let fields = shape.as_object().unwrap().iter();
    fields
        .filter(|(key, _)| !["unchecked", "exactly one", "untagged"].contains(&key.as_str()))
        .collect()
}

/// Returns the words of a kind, its bounds, and the kind of its items.
fn parsed(kind: &str) -> (Vec<&str>, (f64, f64), Value) {
    let kind = kind.trim_end_matches(" or null").trim_start_matches("text or ");
    let (own, items) = kind.split_once(" of ").unwrap_or((kind, "any"));
    (
        kind.split(' ').collect(),
        shape::parse_bounds(&own.split(' ').collect::<Vec<_>>()),
        items.into(),
    )
}

/// Returns a value of this kind with as few fields as possible.
fn right(checker: Checker<'_>, kind: &Value) -> Value {
    let shapes = &checker.table.json["shapes"];
    let Some(text) = kind.as_str() else {
        let one = shape::words(kind, "exactly one").next();
        let needed = fields(kind).into_iter();
        let needed = needed.filter(|(key, _)| key.ends_with('!') || Some(key.as_str()) == one);
        let needed =
            needed.map(|(key, kind)| (key.trim_end_matches('!').to_owned(), right(checker, kind)));
        return Value::Object(needed.collect());
    };
    let (words, (least, most), items) = parsed(text);
    match words.as_slice() {
        ["any", ..] | ["text" | "name" | "id" | "title", ..] => json!("a"),
        ["boolean"] => json!(true),
        ["object"] => json!({}),
        ["one", "of", first, ..] => json!(first),
        ["integer" | "number", ..] => match least.max(0.0).min(most) {
            whole if words[0] == "integer" => json!(whole as i64),
            part => json!(part),
        },
        ["list", ..] => json!([right(checker, &items)]),
        ["map", ..] => json!({"a": right(checker, &items)}),
        ["union", name] => {
            let (key, kind) = fields(&shapes[*name])[0];
            json!({ key: right(checker, kind) })
        }
        ["tagged", name, rest @ ..] => {
            let (tag, kind) = fields(&shapes[*name])[0];
            let mut object = right(checker, kind);
            object[*rest.last().unwrap_or(&"type")] = json!(tag);
            object
        }
        [name] if shapes[*name].is_object() => right(checker, &shapes[*name]),
        _ => panic!("unknown kind: {text}"),
    }
}

/// Returns values that break a kind in different ways.
fn wrong(checker: Checker<'_>, kind: &Value) -> Vec<Value> {
    let Some(text) = kind.as_str() else {
        return vec![json!("a"), json!([])];
    };
    let (words, (least, most), items) = parsed(text);
    let lengths =
        || [least - 1.0, most + 1.0].into_iter().filter(|it| it.is_finite()).map(|it| it as usize);
    match words.as_slice() {
        ["any", ..] => Vec::new(),
        [class @ ("text" | "name" | "id" | "title"), ..] => {
            let mut wrong: Vec<Value> = lengths().map(|length| "a".repeat(length).into()).collect();
            wrong.push(json!(1.5));
            wrong.extend((*class != "text").then(|| json!("a~")));
            wrong
        }
        ["boolean"] | ["object"] => vec![json!("a")],
        ["one", ..] => vec![json!("surprise"), json!(1.5)],
        ["integer" | "number", ..] => {
            let bounds = [least - 1.0, most + 1.0].into_iter().filter(|it| it.is_finite());
            let bounds = bounds.map(|bound| match words[0] {
                "integer" => json!(bound as i64),
                _ => json!(bound),
            });
            bounds.chain([json!("a"), json!([])]).collect()
        }
        ["list", ..] => {
            let mut wrong: Vec<Value> =
                lengths().map(|length| vec![right(checker, &items); length].into()).collect();
            wrong.extend(wrong_items(checker, &items));
            wrong.push(json!({"a": 1}));
            wrong
        }
        ["map", ..] => vec![json!("a"), json!({"a": wrong(checker, &items)[0]})],
        ["union", ..] => vec![json!({}), json!("a")],
        ["tagged", _, rest @ ..] => {
            vec![json!({ *rest.last().unwrap_or(&"type"): "surprise" }), json!(1.5)]
        }
        _ => vec![json!("a"), json!([])],
    }
}

fn wrong_items(checker: Checker<'_>, kind: &Value) -> Vec<Value> {
    wrong(checker, kind).into_iter().map(|item| json!([item])).collect()
}

/// Returns a body with other fields. A null removes a field.
pub(crate) fn with(mut body: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        match value {
            Value::Null => drop(body.as_object_mut().unwrap().shift_remove(key)),
            value => body[key] = value.clone(),
        }
    }
    body
}

/// Checks that each of these bodies is refused with a message that contains the text beside it. Returns the messages.
#[track_caller]
pub(crate) fn check_refused<E: std::fmt::Debug>(
    cases: Vec<(&str, Value)>,
    check: impl Fn(&Value) -> Result<(), E>,
    message: impl Fn(E) -> String,
) -> Vec<String> {
    let check = |(expected, body): (&str, Value)| {
        let found = message(check(&body).expect_err(&format!("{expected}: {body}")));
        assert!(found.contains(expected), "{expected}\n{found}\n{body}");
        found
    };
    cases.into_iter().map(check).collect()
}

/// Checks that each row and each of the words of a table has one of these messages.
#[track_caller]
pub(crate) fn check_coverage(table: &Table, messages: &[String]) {
    for (section, entries) in table.json.as_object().unwrap() {
        if !section.starts_with("refused") && !section.starts_with("words") {
            continue;
        }
        for (name, words) in entries.as_object().unwrap() {
            let template = words.as_str().or_else(|| words[1].as_str()).unwrap();
            let has = messages.iter().any(|message| could_be(message, template));
            assert!(has, "no case of {section}: {name}");
        }
    }
}

/// Returns `true` if a message has the fixed parts of a template, in their order.
fn could_be(message: &str, template: &str) -> bool {
    let fixed = template.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    let mut rest = Some(message);
    for part in fixed.filter(|part| !part.is_empty()) {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

fn table(json: &Value) -> Table {
    Table::parse(&json.to_string(), Null::Missing, in_brackets)
}

#[test]
fn errors_have_the_words_of_the_table() {
    let table = table(&json!({
        "words": {"missing": ["gone_{key}", "{path} in {parent} of {pointer} ({plain})"]},
        "own": {"unknown": "{key}?"},
    }));
    let checker = Checker::new(&table);
    let refusal = checker.refuse::<()>("missing", "a.0.b", &[]).unwrap_err();
    assert_eq!(refusal.code, "gone_b");
    assert_eq!(refusal.path, "a[0].b");
    assert_eq!(refusal.text, "a[0].b in a[0] of /a/0 (a.0.b)");
    let text = |checker: Checker<'_>| checker.refuse::<()>("unknown", "c", &[]).unwrap_err().text;
    assert_eq!(text(checker), "c: unknown");
    assert_eq!(text(checker.with_words("own")), "c?");
}

#[test]
fn nulls_are_treated_as_the_vendor_does() {
    let shapes = json!({"shapes": {"a": {"b!": "text", "c!": "text or null"}}}).to_string();
    let passes = |nulls, value: Value| {
        let table = Table::parse(&shapes, nulls, str::to_owned);
        Checker::new(&table).check("", &value, &"a".into()).is_ok()
    };
    let (first, second) = (json!({"b": null, "c": "x"}), json!({"b": "x", "c": null}));
    for nulls in [Null::Value, Null::Missing] {
        assert!(!passes(nulls, first.clone()) && passes(nulls, second.clone()), "{nulls:?}");
    }
    let shapes = json!({"shapes": {"a": {"b": "text"}}}).to_string();
    let table = Table::parse(&shapes, Null::Fits, str::to_owned);
    assert_eq!(Checker::new(&table).check("", &json!({"b": null}), &"a".into()), Ok(()));
    assert_eq!(Checker::new(&table).check("", &Value::Null, &"a".into()), Ok(()));
}

#[test]
fn tags_have_defaults_and_open_ends() {
    let table = table(&json!({"shapes": {
        "tool": {"own": {"name!": "text"}, "untagged": "own", "unchecked": "web_* other", "also": "by"},
        "by": {"x": "text"},
        "note": {"a": "tagged inner by kind"},
        "inner": {"k": {"unchecked": "type"}},
    }}));
    let check = |kind: &str, value: Value| Checker::new(&table).check("", &value, &kind.into());
    for right in [
        json!({"name": "a"}),
        json!({"type": "own", "name": "a"}),
        json!({"type": "web_1", "any": 1}),
        json!({"type": "other"}),
        json!({"type": "also", "x": "a"}),
    ] {
        assert_eq!(check("tagged tool", right), Ok(()));
    }
    for wrong in [
        json!({}),
        json!({"type": "webs"}),
        json!({"type": "others"}),
        json!({"type": "untagged"}),
        json!({"type": 1}),
        json!({"type": "also", "y": "a"}),
    ] {
        assert!(check("tagged tool", wrong.clone()).is_err(), "{wrong}");
    }
    assert_eq!(check("tagged note", json!({"type": "a", "kind": "k"})), Ok(()));
    assert!(check("tagged note", json!({"type": "a", "kind": "l"})).is_err());
}

#[test]
fn rows_select_bodies() {
    let body = json!({
        "n": 5, "m": 7, "text": "abc", "blank": " ", "gone": null,
        "list": [{"type": "x", "a": [1]}, {"type": "y", "b": {"v": true}}], "same": [1, 2, 1],
        "map": {}, "full": {"k": 1},
    });
    let facts = json!({"model": "m1"});
    let meets = |conditions: &str| {
        let table = table(&json!({"refused": {conditions: "{path}={found}"}}));
        Checker::new(&table).check_rows("refused", &body, &facts).err().map(|refusal| refusal.text)
    };
    for (conditions, found) in [
        ("n", "n=5"),
        ("n & text", "text=abc"),
        ("text = abd abc", "text=abc"),
        ("text != abd", "text=abc"),
        ("text ^ x ab", "text=abc"),
        ("n < 6", "n=5"),
        ("n > 4.5", "n=5"),
        ("n < m", "n=5"),
        ("text has bc", "text=abc"),
        ("text = @list.*.type|text", "text=abc"),
        ("text != @list.*.type", "text=abc"),
        ("$model = @$model", "model=m1"),
        ("same.* twice", "same[0]=1"),
        ("same.* > 0 and != 1", "same[1]=2"),
        ("blank blank", "blank= "),
        ("gone|m", "m=7"),
        ("list.*.type = y", "list[1].type=y"),
        ("list.*[type=y]", "list[1]={\"type\":\"y\",\"b\":{\"v\":true}}"),
        ("list.*[type=y,!a].type", "list[1].type=y"),
        ("list.*[!type=x].type", "list[1].type=y"),
        ("list.*[a=[1]].type", "list[0].type=x"),
        ("list.*[b].type", "list[1].type=y"),
        ("list.1.b.*", "list[1].b.v=true"),
        ("full[*]", "full={\"k\":1}"),
        ("map[!*]", "map={}"),
        ("$model = m1", "model=m1"),
        ("!gone & n", "n=5"),
        ("!text = x", "="),
    ] {
        let found = if found == "=" { "=null" } else { found };
        assert_eq!(meets(conditions).as_deref(), Some(found), "{conditions}");
    }
    for conditions in [
        "gone",
        "!n",
        "n & gone",
        "text = ab",
        "text != abc",
        "text ^ b",
        "n < 5",
        "n > 5",
        "m < n",
        "text blank",
        "list.*[type=z]",
        "list.*[type=x,!a]",
        "list.2",
        "map[*]",
        "$n",
        "model",
        "gone != 1",
        "!text ^ a",
        "text > 1",
        "n > gone",
    ] {
        assert_eq!(meets(conditions), None, "{conditions}");
    }
}
