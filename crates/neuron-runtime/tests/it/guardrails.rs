//! Tests of guardrails, called directly and around the model calls of real agents.

use std::future::IntoFuture as _;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use neuron_loop::{AgentBuilder, LoopError, OutputMode, RunEvent, RunResult, Start, Step};
use neuron_runtime::{
    ErasedInputGuardrail, ErasedOutputGuardrail, GuardrailHook, GuardrailResult, InputGuardrail,
    OutputGuardrail, run_input_guardrails, run_output_guardrails,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolSearch;
use neuron_types::{
    ApprovalDecisions, BoxedHook, CALL_TOOL, ContentBlock, ContentItem, DocumentSource, HookAction,
    HookError, HookEvent, ImageSource, Message, ObservabilityHook, PermissionDecision,
    PermissionPolicy, Role, StopReason, StreamEvent, ToolContext, ToolOutput, transcript,
};
use serde_json::{Value, json};
use tracing::Level;

use crate::support::*;
use crate::tracing_records::Records;

/// A guardrail that logs each checked text. The words of the text determine the result:
///
/// - `bad` is a tripwire, and `odd` is a warning.
/// - `panic` makes the check panic.
/// - `slow` makes the check take a minute, and `hang` makes it never end.
#[derive(Clone)]
struct Words {
    name: &'static str,
    log: Log,
}

fn words(name: &'static str, log: &Log) -> Words {
    Words { name, log: log.clone() }
}

impl Words {
    async fn judge(&self, text: &str) -> GuardrailResult {
        self.log.push(format!("{}: {text}", self.name));
        if text.contains("slow") {
            tokio::time::sleep(Duration::from_secs(60)).await;
            self.log.push(format!("{} is done", self.name));
        }
        if text.contains("hang") {
            pending::<()>().await;
        }
        assert!(!text.contains("panic"), "a guardrail panics");
        if text.contains("bad") {
            GuardrailResult::Tripwire("a bad word".into())
        } else if text.contains("odd") {
            GuardrailResult::Warn("an odd word".into())
        } else {
            GuardrailResult::Pass
        }
    }
}

impl InputGuardrail for Words {
    async fn check(&self, input: &str) -> GuardrailResult {
        self.judge(input).await
    }

    fn name(&self) -> &str {
        self.name
    }
}

impl OutputGuardrail for Words {
    async fn check(&self, output: &str) -> GuardrailResult {
        self.judge(output).await
    }

    fn name(&self) -> &str {
        self.name
    }
}

/// A guardrail that always returns the same result.
struct Says(GuardrailResult);

impl InputGuardrail for Says {
    async fn check(&self, _: &str) -> GuardrailResult {
        self.0.clone()
    }
}

impl OutputGuardrail for Says {
    async fn check(&self, _: &str) -> GuardrailResult {
        self.0.clone()
    }
}

/// A guardrail that panics before it returns a future.
struct PanicsAtOnce;

impl InputGuardrail for PanicsAtOnce {
    fn check(&self, _: &str) -> impl Future<Output = GuardrailResult> + Send {
        assert!(InputGuardrail::name(self).is_empty(), "it panics");
        std::future::ready(GuardrailResult::Pass)
    }
}

impl OutputGuardrail for PanicsAtOnce {
    fn check(&self, _: &str) -> impl Future<Output = GuardrailResult> + Send {
        assert!(OutputGuardrail::name(self).is_empty(), "it panics");
        std::future::ready(GuardrailResult::Pass)
    }
}

// Tests without an agent.

#[test]
fn guardrail_result_methods_match_the_variant() {
    let (pass, trip, warn) = (
        GuardrailResult::Pass,
        GuardrailResult::Tripwire("t".into()),
        GuardrailResult::Warn("w".into()),
    );
    let is = |result: &GuardrailResult| (result.is_pass(), result.is_tripwire(), result.is_warn());
    assert_eq!(is(&pass), (true, false, false));
    assert_eq!(is(&trip), (false, true, false));
    assert_eq!(is(&warn), (false, false, true));
    assert_eq!([&pass, &trip, &warn].map(GuardrailResult::reason), [None, Some("t"), Some("w")]);
}

#[tokio::test]
async fn first_tripwire_wins_before_first_warning() {
    let (pass, trip, warn) = (
        || GuardrailResult::Pass,
        |why: &str| GuardrailResult::Tripwire(why.into()),
        |why: &str| GuardrailResult::Warn(why.into()),
    );
    for (said, expected) in [
        (vec![], pass()),
        (vec![pass(), pass()], pass()),
        (vec![pass(), warn("a"), pass(), warn("b")], warn("a")),
        (vec![warn("a"), pass(), trip("b")], trip("b")),
        (vec![trip("a"), warn("b"), trip("c")], trip("a")),
    ] {
        let guardrails: Vec<Says> = said.into_iter().map(Says).collect();
        let input: Vec<&dyn ErasedInputGuardrail> = guardrails.iter().map(|one| one as _).collect();
        assert_eq!(run_input_guardrails(&input, "text").await, expected);
        let output: Vec<&dyn ErasedOutputGuardrail> =
            guardrails.iter().map(|one| one as _).collect();
        assert_eq!(run_output_guardrails(&output, "text").await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn all_guardrails_run_sequentially_after_a_tripwire() {
    let log = Log::default();
    let (first, second) = (words("first", &log), words("second", &log));
    let panics = PanicsAtOnce;
    let guardrails: Vec<&dyn ErasedInputGuardrail> = vec![&first, &panics, &second];
    let result = run_input_guardrails(&guardrails, "slow and bad").await;
    assert_eq!(result, GuardrailResult::Tripwire("a bad word".into()));
    assert_eq!(
        log.lines(),
        ["first: slow and bad", "first is done", "second: slow and bad", "second is done"]
    );
}

#[tokio::test]
async fn panicking_guardrail_is_a_tripwire() {
    let log = Log::default();
    let (later, at_once) = (words("later", &log), PanicsAtOnce);
    let panicked = GuardrailResult::Tripwire("the guardrail panicked".into());
    assert_eq!(run_input_guardrails(&[&later], "panic").await, panicked);
    assert_eq!(run_input_guardrails(&[&at_once], "").await, panicked);
    assert_eq!(run_output_guardrails(&[&later], "panic").await, panicked);
    assert_eq!(run_output_guardrails(&[&at_once], "").await, panicked);
    // The guardrail works again after its panic.
    assert!(run_input_guardrails(&[&later], "fine").await.is_pass());
}

#[tokio::test]
async fn dropped_check_prevents_later_guardrails() {
    let log = Log::default();
    let (first, second) = (words("first", &log), words("second", &log));
    let guardrails: Vec<&dyn ErasedInputGuardrail> = vec![&first, &second];
    assert!(run_input_guardrails(&guardrails, "hang").now_or_never().is_none());
    assert_eq!(log.lines(), ["first: hang"]);
}

/// Users import all items with globs and call guardrails directly, so method calls must not be ambiguous.
#[tokio::test]
async fn guardrail_methods_are_unambiguous_with_glob_imports() {
    use neuron_runtime::*;
    #[expect(unused_imports, reason = "as users do")]
    use neuron_types::*;

    struct NoSecrets;
    impl InputGuardrail for NoSecrets {
        fn check(&self, input: &str) -> impl Future<Output = GuardrailResult> + Send {
            async move {
                if input.contains("API_KEY") || input.contains("sk-") {
                    GuardrailResult::Tripwire("Input contains a secret".to_string())
                } else {
                    GuardrailResult::Pass
                }
            }
        }
    }
    assert!(NoSecrets.check("sk-1").await.is_tripwire());
    assert_eq!(NoSecrets.name(), "NoSecrets");
    let no_secrets = NoSecrets;
    let guardrails: Vec<&dyn ErasedInputGuardrail> = vec![&no_secrets];
    let result = run_input_guardrails(&guardrails, "hello").await;
    assert!(!result.is_tripwire());
    assert_eq!(format!("{:?}", guardrails[0]), "NoSecrets");
    // A guardrail that is chosen at run time.
    let chosen: Arc<dyn ErasedInputGuardrail> = Arc::new(NoSecrets);
    assert!(chosen.check("API_KEY").await.is_tripwire());
    assert_eq!(chosen.name(), "NoSecrets");
}

#[test]
fn default_name_is_the_type_without_its_path() {
    struct Of<T>(T);
    impl<T: Send + Sync> InputGuardrail for Of<T> {
        async fn check(&self, _: &str) -> GuardrailResult {
            GuardrailResult::Pass
        }
    }
    let chosen: Arc<dyn ErasedOutputGuardrail> = Arc::new(Says(GuardrailResult::Pass));
    assert_eq!(OutputGuardrail::name(&chosen), "Says");
    let generic = Of(String::new());
    assert_eq!(generic.name(), "Of<alloc::string::String>");
    assert!(generic.0.is_empty());
}

// Tests with an agent.

struct Setup {
    provider: ScriptedProvider,
    /// Log to which the guardrails and the tools write.
    log: Log,
    builder: AgentBuilder,
}

fn setup(replies: impl IntoIterator<Item = Reply>) -> Setup {
    let provider = ScriptedProvider::new(replies);
    let log = Log::default();
    let tools = registry([Act::new("act", &log)]);
    let builder = bare(provider.clone()).tools(tools);
    Setup { provider, log, builder }
}

fn call(input: Value) -> Reply {
    Reply::tool_call("c1", "act", input)
}

fn both(log: &Log) -> GuardrailHook {
    GuardrailHook::new().input_guardrail(words("in", log)).output_guardrail(words("out", log))
}

/// The three ways to run an agent.
#[derive(Debug, Clone, Copy)]
enum Way {
    Run,
    Stream,
    Step,
}

const WAYS: [Way; 3] = [Way::Run, Way::Stream, Way::Step];

/// Runs the agent with the user message `text`, in the given way. An error is returned as its text.
async fn run(way: Way, agent: &mut Chat, text: &str) -> Result<RunResult, String> {
    let ctx = ToolContext::default();
    let run = agent.run(text, &ctx);
    let ended = match way {
        Way::Run => run.await,
        Way::Stream => {
            let mut events = run.stream();
            loop {
                match events.next().await.expect("an end") {
                    Ok(RunEvent::Ended(result)) => break Ok(result),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            }
        }
        Way::Step => {
            let mut steps = run.steps();
            loop {
                match steps.next().await.expect("an end") {
                    Ok(Step::Ended(result)) => break Ok(result),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            }
        }
    };
    assert_eq!(transcript::validate(agent.messages()), Ok(()));
    ended.map_err(|error| error.to_string())
}

fn has(messages: &[Message], text: &str) -> bool {
    format!("{messages:?}").contains(text)
}

#[tokio::test]
async fn rejected_input_ends_the_run_before_the_model_call() {
    for way in WAYS {
        let Setup { provider, log, builder } = setup([Reply::text("hello"), Reply::text("fine")]);
        let mut agent = Chat::new(builder.hook(both(&log)));
        run(way, &mut agent, "hi").await.unwrap();
        let before = agent.messages().to_vec();
        let error = run(way, &mut agent, "something bad").await.unwrap_err();
        assert_eq!(error, "terminated by hook: input guardrail `in`: a bad word");
        assert_eq!(agent.messages(), before);
        assert_eq!(provider.calls(), 1);
        assert_eq!(run(way, &mut agent, "good").await.unwrap().response, "fine");
        assert_eq!(
            log.lines(),
            ["in: hi", "out: hello", "in: something bad", "in: good", "out: fine"]
        );
        assert!(!has(&provider.requests()[1].messages, "bad"));
    }
}

#[tokio::test]
async fn rejected_response_is_not_stored_and_its_tools_do_not_run() {
    for way in WAYS {
        let Setup { log, builder, .. } = setup([
            call(json!({"text": "first"})).with_text("Let me look"),
            call(json!({"text": "second"})).with_text("bad"),
            Reply::text("fine"),
        ]);
        let mut agent = Chat::new(builder.hook(both(&log)));
        let error = run(way, &mut agent, "go").await.unwrap_err();
        assert_eq!(
            error,
            "terminated by hook: output guardrail `out`: a bad word \
             (before that, 1 tool call ran; their results stay in the conversation)"
        );
        assert!(has(agent.messages(), "first") && !has(agent.messages(), "second"));
        assert!(!has(agent.messages(), "bad"));
        let starts = log.lines().iter().filter(|line| line.starts_with("start")).count();
        assert_eq!(starts, 1);
        assert_eq!(run(way, &mut agent, "and now?").await.unwrap().response, "fine");
    }
}

#[tokio::test]
async fn warning_is_logged_and_the_run_continues() {
    let (records, _guard) = Records::start();
    let Setup { log, builder, .. } = setup([Reply::text("also odd"), Reply::text("unused")]);
    let hook = both(&log).input_guardrail(words("second", &log));
    let mut agent = Chat::new(builder.hook(hook));
    assert_eq!(run(Way::Run, &mut agent, "odd").await.unwrap().response, "also odd");
    // All warnings are logged, even if another guardrail trips.
    run(Way::Run, &mut agent, "odd and bad").await.unwrap_err();
    let warnings: Vec<String> = records
        .events()
        .into_iter()
        .filter(|told| told.level == Level::WARN)
        .map(|told| {
            format!(
                "{} {} {}",
                told.fields["guardrail"], told.fields["reason"], told.fields["message"]
            )
        })
        .collect();
    assert_eq!(
        warnings,
        [
            "in an odd word a guardrail warns of the input",
            "second an odd word a guardrail warns of the input",
            "out an odd word a guardrail warns of the output",
        ]
    );
}

#[tokio::test]
async fn panicking_guardrail_ends_the_run() {
    let (records, _guard) = Records::start();
    for way in WAYS {
        let Setup { provider, log, builder } = setup([Reply::text("panic"), Reply::text("fine")]);
        let mut agent = Chat::new(builder.hook(both(&log)));
        let error = run(way, &mut agent, "panic").await.unwrap_err();
        assert_eq!(error, "terminated by hook: input guardrail `in`: the guardrail panicked");
        assert_eq!((agent.messages(), provider.calls()), (&[][..], 0));
        let error = run(way, &mut agent, "go").await.unwrap_err();
        assert_eq!(error, "terminated by hook: output guardrail `out`: the guardrail panicked");
        assert_eq!(agent.messages(), [Message::user("go")]);
        assert_eq!(run(way, &mut agent, "again").await.unwrap().response, "fine");
    }
    let errors = records.events().into_iter().filter(|told| told.level == Level::ERROR);
    assert!(
        errors
            .map(|told| told.fields["message"].clone())
            .all(|text| text == "a guardrail panicked")
    );
}

#[tokio::test]
async fn only_new_user_text_is_checked() {
    let document = |text: &str| ContentBlock::Document {
        source: DocumentSource::PlainText { data: text.into() },
    };
    let image = ContentBlock::Image { source: ImageSource::Url { url: "https://bad".into() } };
    let raw = ContentBlock::Raw {
        provider: "vendor".into(),
        json: json!({ "text": "bad" }),
        portable: Some(Box::new(ContentBlock::Text("cited".into()))),
    };
    let text = |text: &str| ContentBlock::Text(text.into());
    let Setup { log, builder, .. } = setup([
        call(json!({"text": "bad result"})),
        Reply::text("bad answers are not input"),
        Reply::text("a"),
        Reply::text("b"),
    ]);
    let history = vec![Message::user("bad, but long ago"), Message::assistant("well")];
    let hook = GuardrailHook::new().input_guardrail(words("in", &log));
    let mut agent = Chat::new(builder.system_prompt("bad rules").hook(hook));
    agent.conversation = history.into();
    let ctx = ToolContext::default();
    let content = vec![text("sp"), text("lit "), raw, document("a file"), image.clone()];
    agent.run(Message { role: Role::User, content }, &ctx).await.unwrap();
    agent.run(Message { role: Role::User, content: vec![image] }, &ctx).await.unwrap();
    let mut steps = agent.run("one", &ctx).steps();
    steps.inject(Message::system("bad news"));
    steps.inject(Message::user("two"));
    steps.next().await.unwrap().unwrap();
    let checked: Vec<String> =
        log.lines().into_iter().filter(|line| line.starts_with("in")).collect();
    assert_eq!(checked, ["in: split cited\na file", "in: one\ntwo"]);
}

#[tokio::test]
async fn tool_results_are_checked_if_enabled() {
    for way in WAYS {
        for (text, is_rejected) in [("fine", false), ("bad", true)] {
            let Setup { provider, log, builder } =
                setup([call(json!({ "text": text })), Reply::text("done")]);
            let hook = GuardrailHook::builder()
                .input_guardrail(words("in", &log))
                .check_tool_results()
                .build();
            let mut agent = Chat::new(builder.hook(hook));
            let ended = run(way, &mut agent, "go").await;
            let checked: Vec<String> =
                log.lines().into_iter().filter(|line| line.starts_with("in")).collect();
            assert_eq!(checked, ["in: go".to_owned(), format!("in: {text}")]);
            if !is_rejected {
                assert_eq!(ended.unwrap().response, "done");
                continue;
            }
            assert_eq!(
                ended.unwrap_err(),
                "terminated by hook: input guardrail `in`: a bad word \
                 (before that, 1 tool call ran; the latest results are removed from the \
                 conversation)"
            );
            let results = agent.messages().last().unwrap();
            let content =
                vec![ContentItem::Text("[removed: a guardrail rejected the result]".into())];
            let tool_use_id = "c1".to_owned();
            let notice = ContentBlock::ToolResult { tool_use_id, content, is_error: true };
            assert_eq!(results.content, [notice]);
            assert_eq!(provider.calls(), 1);
            // The run continues without the results.
            let ctx = ToolContext::default();
            assert_eq!(agent.run(Start::Continue, &ctx).await.unwrap().response, "done");
        }
    }
}

/// A result that a person supplies for a pending call is checked like any other result.
#[tokio::test]
async fn supplied_result_is_checked_on_resume() {
    struct AskAll;
    impl PermissionPolicy for AskAll {
        fn check(&self, _: &str, _: &Value) -> PermissionDecision {
            PermissionDecision::Ask("really?".into())
        }
    }
    let Setup { provider, log, builder } = setup([call(json!({})), Reply::text("done")]);
    let builder =
        builder.permission_policy(AskAll).config(|config| config.pause_for_approval = true);
    let mut agent = Chat::new(builder.hook(both(&log).check_tool_results()));
    let ctx = ToolContext::default();
    let paused = agent.run("go", &ctx).await;
    assert!(matches!(paused, Err(LoopError::ApprovalRequired(_))), "{paused:?}");
    let decisions = ApprovalDecisions::new().supply("c1", ToolOutput::text("bad"));
    let error = agent.run(decisions, &ctx).await.unwrap_err();
    assert_eq!(error.to_string(), "terminated by hook: input guardrail `in`: a bad word");
    assert_eq!(log.lines(), ["in: go", "in: bad"]);
    assert_eq!(provider.calls(), 1);
    assert!(!has(agent.messages(), "bad\""));
    assert_eq!(transcript::validate(agent.messages()), Ok(()));
}

#[tokio::test]
async fn only_the_text_of_a_response_is_checked() {
    let raw = ContentBlock::Raw {
        provider: "vendor".into(),
        json: json!({}),
        portable: Some(Box::new(ContentBlock::Text("cited".into()))),
    };
    let text = ContentBlock::Text("Well, ".into());
    let Setup { log, builder, .. } = setup([
        // Reasoning and arguments of tools are not checked.
        call(json!({"text": "bad"})).thinking("bad", "signed"),
        Reply::message(vec![text, raw]),
    ]);
    let mut agent = Chat::new(builder.hook(both(&log)));
    run(Way::Run, &mut agent, "go").await.unwrap();
    let checked: Vec<String> =
        log.lines().into_iter().filter(|line| line.starts_with("out")).collect();
    assert_eq!(checked, ["out: Well, cited"]);
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Person {
    #[expect(dead_code, reason = "it is only read")]
    name: String,
}

#[tokio::test]
async fn typed_output_is_checked_as_text() {
    let output = |name: &str| json!({ "name": name });
    let by_tool = |name: &str| Reply::tool_call("1", "final_output", output(name));
    let by_text = |name: &str| Reply::text(output(name).to_string());
    for (mode, replies) in [
        (OutputMode::Tool, ["a \"bad\" one", "Ann"].map(by_tool)),
        (OutputMode::Native, ["a \"bad\" one", "Ann"].map(by_text)),
    ] {
        let Setup { log, builder, .. } = setup(replies);
        let mut agent =
            Chat::new(builder.config(|config| config.output_mode = mode).hook(both(&log)));
        let ctx = ToolContext::default();
        let error = agent.run("who?", &ctx).typed::<Person>().await.unwrap_err();
        assert!(matches!(error, LoopError::HookTerminated(_)), "{error}");
        assert_eq!(agent.messages(), [Message::user("who?")]);
        agent.run("and?", &ctx).typed::<Person>().await.unwrap();
        let checked: Vec<String> =
            log.lines().into_iter().filter(|line| line.starts_with("out")).collect();
        assert_eq!(checked, [r#"out: {"name":"a \"bad\" one"}"#, r#"out: {"name":"Ann"}"#]);
    }
}

#[tokio::test]
async fn typed_output_through_call_tool_does_not_pass_the_guardrails() {
    let mut tools = registry([Act::new("act", &Log::default())]);
    tools.defer_tools(ToolSearch::new()).unwrap();
    let through = json!({ "name": "final_output", "arguments": { "name": "a bad one" } });
    for last in ["a bad one", "Ann"] {
        let replies = [
            Reply::tool_call("1", CALL_TOOL, through.clone()),
            Reply::tool_call("2", "final_output", json!({ "name": last })),
        ];
        let Setup { log, builder, .. } = setup(replies);
        let mut agent = Chat::new(builder.tools(tools.clone()).hook(both(&log)));
        let ended = agent.run("who?", &ToolContext::default()).typed::<Person>().await;
        assert_eq!(ended.is_ok(), last == "Ann", "only the checked output is accepted");
        let checked = format!(r#"out: {{"name":"{last}"}}"#);
        assert_eq!(log.lines().last(), Some(&checked));
    }
}

/// Guardrails also check the unescaped form of JSON. JSON can escape every character, and a parser returns the
/// characters themselves.
#[tokio::test]
async fn escaped_json_is_also_checked_unescaped() {
    let fenced = "In ``` as you said:\n```json\n{\"name\": \"\\u0062ad\"}\n```\n";
    for (mode, text) in [
        (OutputMode::Native, r#"{"name": "\u0062a\u0064"}"#),
        (OutputMode::Prompt, r#"{"name": "\u0062ad"}"#),
        (OutputMode::Prompt, fenced),
    ] {
        let Setup { log, builder, .. } = setup([Reply::text(text), Reply::text(text)]);
        let mut agent =
            Chat::new(builder.config(|config| config.output_mode = mode).hook(both(&log)));
        let ctx = ToolContext::default();
        let error = agent.run("who?", &ctx).typed::<Person>().await.unwrap_err();
        assert!(matches!(error, LoopError::HookTerminated(_)), "{text}: {error}");
        assert_eq!(agent.messages(), [Message::user("who?")]);
    }
    let name = json!({ "name": "two\nlines \"and\" C:\\new" });
    let Setup { log, builder, .. } = setup([Reply::tool_call("1", "final_output", name)]);
    let mut agent = Chat::new(builder.hook(both(&log)));
    agent.run("?", &ToolContext::default()).typed::<Person>().await.unwrap();
    let written = r#"{"name":"two\nlines \"and\" C:\\new"}"#;
    let read = written.replace("two\\n", "two\n");
    assert_eq!(log.lines(), ["in: ?".to_owned(), format!("out: {written}\n{read}")]);
    // In a text that is not JSON, a backslash is a literal backslash.
    for text in [r"\nabla \u0062ad", "```\n\\u0062ad\n```", "\\", "{\"\\u\": \\u00"] {
        let Setup { log, builder, .. } = setup([Reply::text(text)]);
        let mut agent = Chat::new(builder.hook(both(&log)));
        run(Way::Stream, &mut agent, "go").await.ok();
        assert_eq!(log.lines().last().unwrap(), &format!("out: {text}"));
    }
}

/// Guardrails check all texts in a vendor-specific block, because the vendor's model reads them all.
#[tokio::test]
async fn all_texts_of_a_vendor_specific_block_are_checked() {
    let raw = |json: Value| ContentBlock::Raw { provider: "v".into(), json, portable: None };
    let Setup { provider, log, builder } = setup([Reply::text("well")]);
    let mut agent = Chat::new(builder.hook(both(&log)));
    let block =
        json!({ "type": "document", "source": { "content": [{ "text": "bad" }, 1, null] } });
    let content = vec![ContentBlock::Text("read".into()), raw(block)];
    let ctx = ToolContext::default();
    agent.run(Message { role: Role::User, content }, &ctx).await.unwrap_err();
    assert_eq!((provider.calls(), agent.messages().len()), (0, 0));
    agent.run(Message::user("and this").pinned(), &ctx).await.unwrap();
    assert_eq!(log.lines(), ["in: read\ndocument\nbad", "in: and this", "out: well"]);
}

/// A response that the provider paused and continued is checked as one text, because two harmless parts may be harmful
/// together.
#[tokio::test]
async fn paused_response_is_checked_as_one_text() {
    for way in WAYS {
        let Setup { log, builder, .. } =
            setup([Reply::text("b").stop_reason(StopReason::PauseTurn), Reply::text("ad")]);
        let mut agent = Chat::new(builder.hook(both(&log)));
        run(way, &mut agent, "go").await.unwrap_err();
        assert_eq!(log.lines(), ["in: go", "out: b", "out: bad"]);
    }
}

#[tokio::test]
async fn hold_back_text_shows_no_delta_of_a_rejected_response() {
    for (text, holds_back) in [("bad", false), ("bad", true), ("fine", false), ("fine", true)] {
        let Setup { log, builder, .. } = setup([Reply::text(text).chunk_chars(1)]);
        let mut hook = both(&log);
        if holds_back {
            hook = hook.hold_back_text();
        }
        let mut agent = Chat::new(builder.hook(hook));
        let ctx = ToolContext::default();
        let mut events = agent.run("go", &ctx).stream();
        while let Some(event) = events.next().await {
            log.push(match event {
                Ok(RunEvent::Event(StreamEvent::TextDelta(text))) => format!("delta {text}"),
                Ok(RunEvent::Event(StreamEvent::MessageComplete(message))) => {
                    format!("message {}", message.text())
                }
                Ok(RunEvent::Ended(result)) => format!("complete {}", result.response),
                Err(_) => "error".into(),
                _ => continue,
            });
        }
        let deltas: Vec<String> = text.chars().map(|letter| format!("delta {letter}")).collect();
        let judged = vec![format!("out: {text}")];
        let mut expected = vec!["in: go".to_owned()];
        expected.extend(match (holds_back, text) {
            (true, "bad") => judged,
            (true, _) => [judged, deltas].concat(),
            (false, _) => [deltas, judged].concat(),
        });
        match text {
            "bad" => expected.push("error".into()),
            _ => expected.extend(["message fine".into(), "complete fine".into()]),
        }
        assert_eq!(log.lines(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_ends_after_the_running_guardrail() {
    for (text, ends_with) in [("slow", "cancelled"), ("slow and bad", "terminated by hook")] {
        let Setup { provider, log, builder } = setup([Reply::text("unused")]);
        let mut agent = Chat::new(builder.hook(both(&log)));
        let ctx = ToolContext::default();
        let cancel = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ctx.cancellation_token.cancel();
        };
        let (ended, ()) = tokio::join!(agent.run(text, &ctx), cancel);
        let error = ended.unwrap_err().to_string();
        assert!(error.starts_with(ends_with), "{error}");
        assert_eq!(log.lines(), [format!("in: {text}"), "in is done".into()]);
        assert_eq!(provider.calls(), 0);
        assert_eq!(agent.messages().len(), usize::from(ends_with == "cancelled"));
    }
}

/// A run is dropped while a guardrail checks its message. The next run must check this message again.
#[tokio::test]
async fn message_of_a_dropped_check_is_checked_again() {
    let Setup { provider, log, builder } = setup([Reply::text("fine")]);
    let mut agent = Chat::new(builder.hook(both(&log)));
    let ctx = ToolContext::default();
    assert!(agent.run("hang", &ctx).into_future().now_or_never().is_none());
    assert_eq!(agent.messages(), [Message::user("hang")]);
    // The check of the old message hangs again. A hook that trips would remove both messages.
    agent.add_hook(GuardrailHook::new().input_guardrail(Says(GuardrailResult::Pass)));
    assert!(agent.run("bad", &ctx).into_future().now_or_never().is_none());
    assert_eq!(log.lines(), ["in: hang", "in: hang\nbad"]);
    assert_eq!(provider.calls(), 0);
}

#[tokio::test]
async fn first_rejecting_hook_names_the_reason() {
    let Setup { log, builder, .. } = setup([Reply::text("fine")]);
    let hook = |name| GuardrailHook::new().input_guardrail(words(name, &log));
    let mut agent = Chat::new(builder.hook(hook("a")).hook(hook("b")));
    let error = run(Way::Run, &mut agent, "bad").await.unwrap_err();
    assert_eq!(error, "terminated by hook: input guardrail `a`: a bad word");
    assert_eq!(log.lines(), ["a: bad"]);
    assert_eq!(agent.messages(), []);
}

#[tokio::test]
async fn erased_guardrail_works_in_a_hook() {
    let Setup { log, builder, .. } = setup([Reply::text("fine")]);
    let input: Arc<dyn ErasedInputGuardrail> = Arc::new(words("in", &log));
    let output: Arc<dyn ErasedOutputGuardrail> = Arc::new(words("out", &log));
    let hook = GuardrailHook::builder().input_guardrail(input).output_guardrail(output).build();
    let shown = "GuardrailHook { input: [in], output: [out], checks_tool_results: false, \
                 holds_back_text: false";
    assert!(format!("{hook:?}").starts_with(shown));
    let mut agent = Chat::new(builder.hook(hook));
    run(Way::Run, &mut agent, "go").await.unwrap();
    assert_eq!(log.lines(), ["in: go", "out: fine"]);
}

/// The guardrail receives the whole text of a long response in many chunks.
#[tokio::test]
async fn long_response_in_chunks_is_checked_and_shown_completely() {
    let text = format!("{}odd", "ä".repeat(100_000));
    let Setup { log, builder, .. } = setup([Reply::text(&text).chunk_chars(3)]);
    let mut agent = Chat::new(builder.hook(both(&log).hold_back_text()));
    let ctx = ToolContext::default();
    let events = agent.run("go", &ctx).stream();
    let shown: String = events
        .filter_map(async |event| match event {
            Ok(RunEvent::Event(StreamEvent::TextDelta(text))) => Some(text),
            _ => None,
        })
        .collect()
        .await;
    assert_eq!(shown, text);
    assert_eq!(log.lines().last().unwrap(), &format!("out: {text}"));
}

/// A hook of a user that holds another hook and forwards its events alone.
struct Holds<H>(H);

impl<H: ObservabilityHook> ObservabilityHook for Holds<H> {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.0.on_event(event).await
    }
}

/// Regression test. The book knows no method of a hook but `on_event`. Before the fix, guardrails inside another hook let
/// every text through.
#[tokio::test]
async fn guardrails_inside_another_hook_check_the_events() {
    for way in WAYS {
        let Setup { provider, log, builder } = setup([Reply::text("good"), Reply::text("bad")]);
        let mut agent = Chat::new(builder.hook(Holds(both(&log))));
        let error = run(way, &mut agent, "bad").await.unwrap_err();
        assert_eq!(error, "terminated by hook: input guardrail `in`: a bad word");
        assert_eq!((provider.calls(), log.lines()), (0, vec!["in: bad".to_owned()]));
        let Setup { provider, log, builder } = setup([Reply::text("good"), Reply::text("bad")]);
        let mut agent = Chat::new(builder.hook(Holds(both(&log))));
        assert_eq!(run(way, &mut agent, "one").await.unwrap().response, "good");
        let error = run(way, &mut agent, "two").await.unwrap_err();
        assert_eq!(error, "terminated by hook: output guardrail `out`: a bad word");
        assert_eq!(provider.calls(), 2);
        // Each text is checked once, and not again in a later turn.
        assert_eq!(log.lines(), ["in: one", "out: good", "in: two", "out: bad"]);
    }
}

/// A hook that is added to an agent itself checks each text once, also if a clone of it is inside another hook.
#[tokio::test]
async fn guardrails_do_not_check_twice() {
    let Setup { log, builder, .. } = setup([Reply::text("good")]);
    let (hook, other) = (both(&log), Log::default());
    let mut agent = Chat::new(builder.hook(hook.clone()).hook(Holds(both(&other))));
    run(Way::Run, &mut agent, "one").await.unwrap();
    assert_eq!(log.lines(), ["in: one", "out: good"]);
    assert_eq!(other.lines(), ["in: one", "out: good"]);
    let Setup { builder, .. } = setup([Reply::text("good")]);
    let mut agent = Chat::new(builder.hook(Holds(hook.clone())));
    run(Way::Run, &mut agent, "two").await.unwrap();
    assert_eq!(log.lines()[2..], ["in: two", "out: good"]);
    // One box in an agent and inside another hook of another agent, and a hook of which a clone is the layer.
    let boxed = BoxedHook::new(hook.clone());
    let Setup { builder, .. } = setup([Reply::text("good")]);
    let mut whole = Chat::new(builder.hook(boxed.clone()));
    run(Way::Run, &mut whole, "three").await.unwrap();
    let Setup { builder, .. } = setup([Reply::text("bad")]);
    let mut half = Chat::new(builder.hook(Holds(boxed)));
    run(Way::Run, &mut half, "four").await.unwrap_err();
    let Setup { builder, .. } = setup([Reply::text("good")]);
    let mut both = Chat::new(builder.layer(hook.clone()).hook(Holds(hook)));
    run(Way::Run, &mut both, "five").await.unwrap();
    let expected = ["in: three", "out: good", "in: four", "out: bad", "in: five", "out: good"];
    assert_eq!(log.lines()[4..], expected);
}

/// A hook whose work cannot be done at events says so, once.
#[tokio::test]
async fn hook_that_is_forwarded_by_half_warns_once() {
    let (records, _guard) = Records::start();
    let replies = || [Reply::text("a"), Reply::text("b")];
    let Setup { builder, .. } = setup(replies());
    let builder = builder
        .hook(Holds(neuron_runtime::LoopDetector::new()))
        .hook(Holds(neuron_runtime::CacheMissDetector::new()))
        .hook(Holds(neuron_runtime::TracingHook::new()));
    let mut agent = Chat::new(builder);
    let Setup { builder, .. } = setup(replies());
    let builder = builder
        .hook(neuron_runtime::LoopDetector::new())
        .hook(neuron_runtime::CacheMissDetector::new())
        .hook(neuron_runtime::TracingHook::new());
    let mut whole = Chat::new(builder);
    for agent in [&mut agent, &mut whole] {
        for text in ["one", "two"] {
            run(Way::Run, agent, text).await.unwrap();
        }
    }
    let warnings = records.events().into_iter().filter(|told| told.level == Level::WARN);
    let hooks: Vec<_> = warnings.map(|told| told.fields["hook"].clone()).collect();
    let expected = ["LoopDetector", "LoopDetector", "CacheMissDetector", "TracingHook"];
    assert_eq!(hooks, expected);
}
