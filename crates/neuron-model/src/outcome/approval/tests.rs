//! Tests of decisions on pending calls, and of their stored forms.

use serde_json::json;

use super::*;
use crate::{ContentBlock, Role};

fn call(id: &str) -> PendingCall {
    let call = ToolCall { id: id.into(), name: "pay".into(), input: json!({ "secret": "s3" }) };
    PendingCall::new(call, "it pays")
}

fn nested(id: &str, inner: Vec<PendingCall>) -> PendingCall {
    PendingCall { nested: Some(Box::new(PendingApproval::new("inner", inner))), ..call(id) }
}

#[test]
fn check_reports_decisions_that_do_not_match() {
    let pending = PendingApproval::new("r", vec![call("a"), nested("b", vec![call("c")])]);
    let decisions = ApprovalDecisions::new;
    let inner = decisions().deny("c", "no");
    let fits = decisions().approve("a").nested("b", inner.clone());
    assert_eq!(pending.check(&fits), Ok(()));
    assert_eq!(pending.check(&ApprovalDecisions::approve_all(&pending)), Ok(()));
    assert_eq!(pending.check(&decisions().partial()), Ok(()));
    let all_denied = decisions().deny("a", "").supply("b", ToolOutput::text("x"));
    assert_eq!(pending.check(&all_denied), Ok(()));

    let id = |id: &str| id.to_owned();
    let cases = [
        (decisions(), ApprovalError::Undecided { ids: vec![id("a"), id("b")] }),
        (decisions().approve("a"), ApprovalError::Undecided { ids: vec![id("b")] }),
        (fits.clone().approve("z"), ApprovalError::UnknownCall { id: id("z") }),
        (decisions().nested("a", inner), ApprovalError::NotNested { id: id("a") }),
        (fits.clone().approve("b"), ApprovalError::Nested { id: id("b") }),
        (fits.nested("b", decisions()), ApprovalError::Undecided { ids: vec![id("c")] }),
    ];
    for (decisions, error) in cases {
        assert_eq!(pending.check(&decisions), Err(error), "{decisions:?}");
    }
}

#[test]
fn decision_applies_to_its_call_alone() {
    let state = |turn: usize, call: PendingCall| {
        let mut pending = PendingApproval::new("r", vec![call.at("r", 0, turn, 0)]);
        pending.turn = turn;
        pending
    };
    let other = |id: &str| {
        let input = json!({ "secret": "s4" });
        PendingCall::new(ToolCall { id: id.into(), name: "pay".into(), input }, "it pays")
    };
    let first = state(0, call("c"));
    let id = first.calls[0].approval_id.clone();
    let decisions = ApprovalDecisions::new().approve(&id);
    assert_eq!(first.check(&decisions), Ok(()));
    assert_eq!(decisions, ApprovalDecisions::approve_all(&first));
    assert_eq!(first.call(&id), first.call("c"));
    let reason = |pending: &PendingApproval| match pending.check(&decisions) {
        Err(ApprovalError::NotPending { id: named, reason }) if named == id => reason,
        checked => panic!("{checked:?}"),
    };
    let late = "it was decided on before, or the run went on without it";
    let changed = "another call is at its place now";
    assert_eq!(reason(&state(1, call("c"))), late);
    assert_eq!(reason(&state(0, other("c"))), changed);
    // A model may use an approval id as the id of another call.
    let posing = state(1, other(&id));
    assert_eq!((reason(&posing), decisions.of(&posing.calls[0])), (late, None));
    let early = ApprovalDecisions::new().approve(&state(1, call("c")).calls[0].approval_id);
    let error = first.check(&early).unwrap_err();
    assert!(error.to_string().ends_with("the run has not made this call"), "{error}");
}

#[test]
fn id_of_the_model_must_name_one_call() {
    let by_id = ApprovalDecisions::new().approve("c");
    let uses = |ids: &[&str]| {
        let content = ids.iter().map(|id| ContentBlock::ToolUse {
            id: (*id).to_owned(),
            name: "pay".into(),
            input: json!({}),
        });
        Message { role: Role::Assistant, content: content.collect() }
    };
    let mut pending = PendingApproval::new("r", vec![call("c").at("r", 0, 1, 0)]);
    pending.messages = vec![uses(&["a"]), uses(&["c"])];
    assert_eq!(pending.check(&by_id), Ok(()));
    let twice = by_id.clone().approve(&pending.calls[0].approval_id);
    let ambiguous = Err(ApprovalError::AmbiguousCall { id: "c".into() });
    assert_eq!(pending.check(&twice), ambiguous);
    pending.messages[0] = uses(&["c"]);
    assert_eq!(pending.check(&by_id), ambiguous);
    // A copy for display has no messages.
    assert_eq!(pending.without_messages().check(&by_id), ambiguous);
    pending.messages.remove(0);
    assert_eq!(pending.without_messages().check(&by_id), Ok(()));
    pending =
        PendingApproval::new("r", vec![call("c").at("r", 0, 0, 0), call("c").at("r", 0, 0, 1)]);
    assert_eq!((pending.check(&by_id), pending.call("c")), (ambiguous, None));
}

#[test]
fn decisions_of_several_people_add_up() {
    let inner = [call("c"), call("d")].map(|call| call.at("inner", 0, 0, 0));
    let mut pending = PendingApproval::new("r", vec![call("a"), nested("b", inner.to_vec())]);
    let by_one = |id: &str| {
        let inside = ApprovalDecisions::new().approve(id).partial();
        ApprovalDecisions::new().nested("b", inside).partial()
    };
    pending.remove_decided(&by_one("c"));
    let left = &pending.calls[1].nested.as_ref().unwrap().calls;
    assert_eq!(left.iter().map(|call| &*call.call.id).collect::<Vec<_>>(), ["d"]);
    assert!(pending.check(&by_one("c")).is_err());
    pending.remove_decided(&by_one("d"));
    assert_eq!(pending.calls, [call("a")]);
    let both = by_one("c").merge(by_one("d")).merge(ApprovalDecisions::new().deny("a", "no"));
    let inside = ApprovalDecisions::new().approve("c").approve("d").partial();
    assert_eq!(both, ApprovalDecisions::new().nested("b", inside).deny("a", "no"));
}

#[test]
fn newer_version_is_refused() {
    let mut pending = PendingApproval::new("r", vec![call("a")]);
    pending.version = 2;
    let error = pending.check(&ApprovalDecisions::approve_all(&pending)).unwrap_err();
    assert_eq!(error, ApprovalError::UnsupportedVersion { found: 2, supported: 1 });
}

#[test]
fn state_without_messages_keeps_calls_and_signatures() {
    let effect = || KnownEffect { tool: "pay".into(), key: "17".into(), output: None };
    let mut inner = PendingApproval::new("inner", vec![call("c")]);
    let mut outer = PendingApproval::new("r", vec![call("a"), call("b")]);
    (inner.turn, outer.turns, outer.usage.input_tokens) = (3, 4, 5);
    let signature = ApprovalSignature { expires_at: None, code: "c0de".into() };
    outer.calls[0].signature = Some(signature);
    let mut shown = outer.clone();
    shown.calls[1].nested = Some(Box::new(inner.clone()));
    for pending in [&mut inner, &mut outer] {
        pending.messages.push(Message::user("hi"));
        pending.effects.push(effect());
    }
    outer.calls[1].nested = Some(Box::new(inner));
    assert_eq!(outer.without_messages(), shown);
}

#[test]
fn debug_omits_conversation_and_arguments() {
    let mut pending = PendingApproval::new("r", vec![call("a")]);
    pending.messages.push(Message::user("my secret s3"));
    let text = format!("{pending:?}");
    assert!(text.contains("\"a\"") && text.contains("pay"), "{text}");
    assert!(!text.contains("s3"), "{text}");
}

#[test]
fn stored_form_is_stable_and_ignores_unknown_fields() {
    let mut pending = PendingApproval::new("r", vec![nested("a", vec![call("c")])]);
    pending.messages.push(Message::user("hi"));
    let stored = serde_json::to_value(&pending).unwrap();
    let inner_call = json!({
        "call": { "id": "c", "name": "pay", "input": { "secret": "s3" } },
        "reason": "it pays",
    });
    assert_eq!(stored["version"], 1);
    assert_eq!(stored["calls"][0]["nested"]["calls"], json!([inner_call]));
    let mut foreign = stored;
    foreign["added_later"] = json!(true);
    assert_eq!(serde_json::from_value::<PendingApproval>(foreign).unwrap(), pending);

    let decisions = ApprovalDecisions::new().deny("a", "no").approve_edited("b", json!([1]));
    assert_eq!(
        serde_json::to_value(&decisions).unwrap(),
        json!({ "partial": false, "calls": {
            "a": { "type": "deny", "reason": "no" },
            "b": { "type": "approve_edited", "input": [1] },
        }})
    );
}
