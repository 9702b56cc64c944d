//! Creates a test case from a seed. To add a property to the cases, add a random choice here, a field in the module
//! `case`, and a rule in the module `reference`.

use neuron_types::{ContentBlock, ContentItem, Message, Role, StopReason, TokenUsage, UsageLimits};
use serde_json::{Value, json};

use crate::model::case::*;
use crate::model::random::Random;
use crate::model::shared_budget::Shared;

/// A number of messages that no conversation in these tests reaches. A strategy with this threshold never compacts.
pub(crate) const NEVER: usize = 1_000;

/// Creates the test case for a seed.
pub(crate) fn case(seed: u64) -> Case {
    let mut generator = Generator { random: Random::new(seed), calls: 0 };
    let mut config = generator.config();
    let mut script = generator.script();
    let messages = [generator.message(), Message::user("and then?")];
    let interruption = generator.interruption();
    config.pauses = generator.random.percent(35);
    config.has_policy |= config.pauses;
    for reply in &mut script {
        if let Reply::Fails { fault, .. } = reply
            && generator.random.percent(5)
        {
            *fault = ProviderFault::Window;
        }
    }
    let answers = generator.answers();
    let pure = [vec!["act"], vec!["act", "look"], vec!["look", "solo"], vec!["act", "solo"]];
    let early = generator.random.maybe(30, |random| random.one_of(&pure));
    if early.is_some() && generator.random.percent(20) {
        config.limits = Some(room_for_the_first_calls(&script));
    }
    let shared = generator
        .random
        .maybe(30, |random| Shared { limits: budget(random), at_once: random.percent(50) });
    if generator.random.percent(20) {
        guard(&mut config, &mut generator.random);
        if generator.random.percent(15) {
            reject_after_a_pause(&mut config, &mut script);
        }
    }
    let reuse = generator.random.weighted(&[
        (40, Reuse::Kept),
        (20, Reuse::Stored),
        (20, Reuse::Session),
        (20, Reuse::OtherAgent),
    ]);
    let stores = generator.random.percent(30);
    Case { messages, interruption, config, script, answers, early, reuse, shared, stores }
}

struct Generator {
    random: Random,
    /// Number of tool calls generated so far. Each call gets its own number from this counter.
    calls: u64,
}

impl Generator {
    fn config(&mut self) -> Config {
        let random = &mut self.random;
        Config {
            max_turns: random.maybe(15, |random| random.below(5)),
            limits: random.maybe(30, limits),
            parallel: random.percent(50),
            most_at_once: random.maybe(30, |random| random.below(4)),
            returns_errors: random.percent(30),
            retry_limit: random.maybe(20, |random| random.below(3)),
            has_policy: random.percent(20),
            pauses: false,
            stops_after: random.maybe(15, |random| random.below(5)),
            hides_every: random.maybe(15, |random| 1 + random.below(3)),
            finalizes: random.percent(40),
            cancels_after_turn: random.percent(15),
            retries: random.one_of(&[0, 0, 0, 1, 2]),
            grace: random.one_of(&[0, 15, 15, 1_005]),
            hooks: hooks(random),
            guards: Vec::new(),
            strategy: strategy(random),
            reminders: random.one_of(&[vec![], vec![], vec![], vec![1], vec![2], vec![1, 2]]),
            engine: random.maybe(25, engine),
            history: history(random),
            slow_reader: random.below(3),
            slow_hooks: random.percent(60),
        }
    }

    fn script(&mut self) -> Vec<Reply> {
        // Some cases have a provider that pauses forever.
        if self.random.percent(3) {
            let reasons = [StopReason::PauseTurn, StopReason::Compaction];
            let mut script = Vec::new();
            for _ in 0..18 {
                let stop_reason = self.random.one_of(&reasons);
                let answer = Answer { stop_reason, ..said(Message::assistant("part ")) };
                script.push(Reply::Answers(answer));
            }
            if self.random.percent(30) {
                script[9] = self.reply();
            }
            return script;
        }
        let mut script = Vec::new();
        for _ in 0..1 + self.random.below(6) {
            let reply = self.reply();
            let calls = match &reply {
                Reply::Answers(answer) => answer.message.tool_uses().count(),
                Reply::Fails { .. } => 0,
            };
            // Failures often come in pairs. Calls do not, because each has its own number.
            if calls == 0 && self.random.percent(25) {
                script.push(reply.clone());
            }
            script.push(reply);
        }
        script
    }

    fn reply(&mut self) -> Reply {
        if self.random.percent(8) {
            let fault = self.random.one_of(&PROVIDER_FAULTS);
            return Reply::Fails { fault, waits: self.random.below(3) };
        }
        let mut content = self.texts();
        let calls = self.random.weighted(&[(33, 0), (30, 1), (15, 2), (10, 3), (12, 5)]);
        content.extend(self.calls(calls));
        if self.random.percent(3) {
            content.push(ContentBlock::Text("afterthought".into()));
        }
        if self.random.percent(1) {
            let content_items = vec![ContentItem::Text("forged".into())];
            content.push(ContentBlock::ToolResult {
                tool_use_id: "x".into(),
                content: content_items,
                is_error: false,
            });
        }
        let natural = if calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn };
        let is_natural = self.random.percent(60);
        let stop_reason = if is_natural { natural } else { self.random.one_of(&stop_reasons()) };
        let role = self.random.weighted(&[(97, Role::Assistant), (3, Role::User)]);
        let mut answer = Answer {
            message: Message { role, content },
            stop_reason,
            usage: usage(&mut self.random),
            waits: self.random.below(3),
            sleeps: self.random.one_of(&[0, 0, 0, 7]),
            without_response: is_natural && self.random.percent(10),
            breaks: None,
        };
        if self.random.percent(14) {
            let pieces = answer.pieces().len();
            let how = self.random.one_of(&[
                Break::Ends,
                Break::Fault(ProviderFault::Stream),
                Break::Fault(ProviderFault::Network),
                Break::Fault(ProviderFault::Unavailable),
            ]);
            answer.breaks = Some((self.random.below(pieces + 1), how));
        }
        Reply::Answers(answer)
    }

    fn texts(&mut self) -> Vec<ContentBlock> {
        let thinking = |thinking: &str| ContentBlock::Thinking {
            thinking: thinking.into(),
            signature: "signed".into(),
        };
        let raw = |portable: Option<ContentBlock>| ContentBlock::Raw {
            provider: "vendor".into(),
            json: json!({ "type": "novel" }),
            portable: portable.map(Box::new),
        };
        let text = |text: &str| ContentBlock::Text(text.into());
        self.random.weighted(&[
            (40, vec![text("well")]),
            (10, vec![thinking("hmm"), text("I see")]),
            (5, vec![text("one"), text(" and two")]),
            (5, vec![raw(Some(text("cited")))]),
            (5, vec![raw(None), text("x")]),
            (5, vec![ContentBlock::RedactedThinking { data: "…".into() }]),
            (30, vec![]),
        ])
    }

    fn calls(&mut self, count: usize) -> Vec<ContentBlock> {
        // The delays have distinct sums, so that the order of the ends is certain, even for calls that begin later.
        // Several calls may have no delay.
        let mut delays = vec![10, 20, 40, 80, 160, 320];
        let mut has_patient = false;
        let mut blocks: Vec<ContentBlock> = Vec::new();
        for index in 0..count {
            self.calls += 1;
            let at = self.random.below(delays.len());
            let delay = if self.random.percent(30) { 0 } else { delays.swap_remove(at) };
            let mut deed = self.deed();
            if deed == "patient" && std::mem::replace(&mut has_patient, true) {
                deed = "ok";
            }
            let order = json!({ "number": self.calls, "delay": delay, "does": deed });
            let malformed =
                || json!({ "invalid_json": format!("{{\"number\": {}", order["number"]) });
            let input = if self.random.percent(3) { malformed() } else { order };
            let name = self.random.weighted(&[
                (67, "act"),
                (17, "look"),
                (10, "solo"),
                (3, "raw"),
                (3, "lost"),
            ]);
            let id = self.id(index);
            let call = tool_use(&id, name, input);
            blocks.push(match self.random.percent(5) {
                true => ContentBlock::Raw {
                    provider: "vendor".into(),
                    json: json!({ "type": "tool_use", "extra": true }),
                    portable: Some(Box::new(call)),
                },
                false => call,
            });
        }
        blocks
    }

    fn deed(&mut self) -> &'static str {
        let deeds: Vec<(usize, &str)> = TOOL_DEEDS
            .iter()
            .map(|deed| match *deed {
                "ok" => (60, *deed),
                "error" | "retry" | "patient" => (7, *deed),
                _ => (3, *deed),
            })
            .collect();
        self.random.weighted(&deeds)
    }

    fn id(&mut self, index: usize) -> String {
        match self.random.below(100) {
            0 => String::new(),
            // The same id twice in one response, if it has two calls.
            1 | 2 => "same".into(),
            // Some vendors use the same ids in each response.
            3..30 => format!("c{index}"),
            _ => format!("call-{}", self.calls),
        }
    }

    fn message(&mut self) -> Message {
        let result = ContentBlock::ToolResult {
            tool_use_id: "nobody's".into(),
            content: vec![],
            is_error: false,
        };
        let both = vec![result, ContentBlock::Text("see above".into())];
        self.random.weighted(&[
            (90, Message::user("go")),
            (4, Message::system("be quick")),
            (3, Message::assistant("as I said")),
            (3, Message { role: Role::User, content: both }),
        ])
    }

    fn interruption(&mut self) -> Interruption {
        let how = self.random.weighted(&[
            (27, How::Cancel),
            (27, How::Drop),
            (12, How::DropStep),
            (16, How::Panic),
            (15, How::CancelWithin),
            (3, How::CancelBefore),
        ]);
        let way = if how == How::DropStep { Way::Step } else { self.random.one_of(&WAYS) };
        let (place, nth) = (self.random.below(1_000), self.random.below(1_000));
        Interruption { way, how, place, nth, part: self.random.below(1_000) }
    }

    fn answers(&mut self) -> Vec<Answering> {
        (0..4).map(|_| self.answering()).collect()
    }

    fn answering(&mut self) -> Answering {
        let random = &mut self.random;
        let wrongs = [
            Wrong::UnknownCall,
            Wrong::OtherCall,
            Wrong::Undecided,
            Wrong::NotNested,
            Wrong::InvalidInput,
        ];
        let count = 1 + random.below(4);
        Answering {
            wrong: random.maybe(40, |random| random.one_of(&wrongs)),
            route: random.weighted(&[
                (50, Route::SameAgent),
                (35, Route::Restored),
                (15, Route::AnotherRun),
            ]),
            decisions: (0..count).map(|_| decision(random)).collect(),
        }
    }
}

/// Returns a scripted response with this message, one input and one output token, and no faults.
pub(crate) fn said(message: Message) -> Answer {
    Answer {
        message,
        stop_reason: StopReason::EndTurn,
        usage: TokenUsage { input_tokens: 1, output_tokens: 1, ..Default::default() },
        waits: 1,
        sleeps: 0,
        without_response: false,
        breaks: None,
    }
}

fn decision(random: &mut Random) -> Decision {
    random.weighted(&[
        (35, Decision::Approve),
        (15, Decision::Edit),
        (10, Decision::EditToDenied),
        (15, Decision::Deny),
        (15, Decision::Supply),
        (10, Decision::Leave),
    ])
}

fn stop_reasons() -> [StopReason; 10] {
    [
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::ContentFilter,
        StopReason::Compaction,
        StopReason::PauseTurn,
        StopReason::Refusal,
        StopReason::ContextWindowExceeded,
        StopReason::Other("new".into()),
    ]
}

fn limits(random: &mut Random) -> UsageLimits {
    UsageLimits {
        input_tokens_limit: random.maybe(20, |random| random.below(150)),
        output_tokens_limit: random.maybe(20, |random| random.below(30)),
        total_tokens_limit: random.maybe(20, |random| random.below(180)),
        request_limit: random.maybe(25, |random| random.below(5)),
        tool_calls_limit: random.maybe(35, |random| random.below(6)),
    }
}

/// Returns limits that allow exactly as many tool calls as the first response with calls makes.
fn room_for_the_first_calls(script: &[Reply]) -> UsageLimits {
    let answers = script.iter().filter_map(|reply| match reply {
        Reply::Answers(answer) => Some(answer.message.tool_uses().count()),
        Reply::Fails { .. } => None,
    });
    let calls = answers.into_iter().find(|calls| *calls > 0);
    UsageLimits { tool_calls_limit: calls, ..UsageLimits::default() }
}

/// Returns random limits for a budget that two agents share. Token limits are often near 1,000, because the loop
/// reserves 1,000 tokens for a first response.
fn budget(random: &mut Random) -> UsageLimits {
    UsageLimits {
        input_tokens_limit: random.maybe(20, |random| random.below(150)),
        output_tokens_limit: random.maybe(20, |random| 950 + random.below(1_200)),
        total_tokens_limit: random.maybe(20, |random| 950 + random.below(1_400)),
        request_limit: random.maybe(40, |random| random.below(8)),
        tool_calls_limit: random.maybe(40, |random| random.below(8)),
    }
}

fn usage(random: &mut Random) -> TokenUsage {
    let some = |random: &mut Random| random.maybe(20, |random| random.below(20));
    match random.below(20) {
        // No usage is reported.
        0 | 1 => TokenUsage::default(),
        2 => TokenUsage { output_tokens: usize::MAX, ..TokenUsage::default() },
        _ => TokenUsage {
            input_tokens: 20 + random.below(30),
            output_tokens: 1 + random.below(10),
            cache_read_tokens: some(random),
            cache_creation_tokens: some(random),
            reasoning_tokens: some(random),
            iterations: None,
            cost: None,
        },
    }
}

fn hooks(random: &mut Random) -> Vec<Vec<Rule>> {
    let mut hooks: Vec<Vec<Rule>> =
        (0..random.one_of(&[1, 1, 2, 3])).map(|_| rules(random)).collect();
    // Several hooks with the same action but different reasons.
    if random.percent(30) {
        hooks.push(hooks[0].clone());
    }
    hooks
}

/// Gives each hook of the case a guard, which checks texts. About half of the hooks also get a rule that ends the run
/// at a text check or after a response. Many of these rules are equal.
fn guard(config: &mut Config, random: &mut Random) {
    let rule = |random: &mut Random| Rule {
        event: random.one_of(&["GuardIn", "GuardIn", "GuardOut", "PostLlm"]),
        nth: random.one_of(&[0, 1, 1, 2, 3]),
        deed: Deed::Terminate,
    };
    let common = rule(random);
    for rules in &mut config.hooks {
        config.guards.push(Guard {
            rejects_text: random.percent(70),
            rejects_results: random.percent(60),
            holds_back: random.percent(40),
        });
        if random.percent(50) {
            let is_common = random.percent(60);
            rules.insert(0, if is_common { common.clone() } else { rule(random) });
        }
    }
}

/// Makes the provider pause the first response of the case. The first guard, which is a hook that checks texts, then
/// rejects the continued response.
fn reject_after_a_pause(config: &mut Config, script: &mut [Reply]) {
    let (Some(Reply::Answers(answer)), Some(rules)) =
        (script.first_mut(), config.hooks.first_mut())
    else {
        return;
    };
    answer.message = Message::assistant("part ");
    answer.stop_reason = StopReason::PauseTurn;
    answer.without_response = false;
    rules.insert(0, Rule { event: "GuardOut", nth: 1, deed: Deed::Terminate });
    if let Some(guard) = config.guards.first_mut() {
        guard.rejects_text = true;
    }
}

fn rules(random: &mut Random) -> Vec<Rule> {
    let count = random.weighted(&[(50, 0), (32, 1), (18, 2)]);
    let rule = |random: &mut Random| {
        let deed = random.weighted(&[
            (38, Deed::Skip),
            (32, Deed::Terminate),
            (20, Deed::Fail),
            (15, Deed::Steer),
        ]);
        let event = match deed {
            Deed::Skip if random.percent(50) => "PreTool",
            Deed::Steer if random.percent(70) => {
                random.one_of(&["RunStart", "Turn", "PreLlm", "PostLlm", "PostLlm", "PostTool"])
            }
            // Events that fewer runs reach, and events after which more can go wrong, are chosen more often.
            _ if random.percent(50) => random.one_of(&[
                "Compacted",
                "Compacted",
                "LlmError",
                "PreTool",
                "PostTool",
                "ToolError",
                "ToolError",
            ]),
            _ => random.one_of(&EVENTS),
        };
        Rule { event, nth: random.one_of(&[0, 0, 0, 1, 1, 2, 3]), deed }
    };
    (0..count).map(|_| rule(random)).collect()
}

fn strategy(random: &mut Random) -> Strategy {
    let how = random.weighted(&[
        (35, Compaction::Cut(2)),
        (15, Compaction::Cut(5)),
        (15, Compaction::Behead),
        (10, Compaction::Nothing),
        (10, Compaction::Longer),
        (5, Compaction::OnlySystem),
    ]);
    let faults = [
        StrategyFault::Compaction,
        StrategyFault::Provider,
        StrategyFault::Setting,
        StrategyFault::Durable,
    ];
    let failure = random.maybe(15, |random| (random.below(2), random.one_of(&faults)));
    Strategy {
        above: random.weighted(&[(35, NEVER), (25, 2), (25, 4), (15, 7)]),
        how,
        usage: if random.percent(30) { usage(random) } else { TokenUsage::default() },
        failure,
    }
}

fn engine(random: &mut Random) -> Engine {
    let faults = [EngineFault::Activity, EngineFault::Cancelled, EngineFault::NonDeterminism];
    Engine {
        joins: random.percent(50),
        failing_call: random.maybe(15, |random| (random.below(3), random.one_of(&faults))),
        short_batch: random.maybe(15, |random| random.below(2)),
        continues: random.maybe(15, |random| (random.below(4), random.percent(70))),
        every: None,
        signals: false,
    }
}

fn history(random: &mut Random) -> Vec<Message> {
    let call = |id: &str| Message {
        role: Role::Assistant,
        content: vec![tool_use(id, "act", Value::Null)],
    };
    let result = |id: &str| Message {
        role: Role::User,
        content: vec![ContentBlock::ToolResult {
            tool_use_id: id.into(),
            content: vec![ContentItem::Text("before".into())],
            is_error: false,
        }],
    };
    let (hi, hello) = (Message::user("hi"), Message::assistant("hello"));
    random.weighted(&[
        (70, vec![]),
        (10, vec![hi.clone(), hello.clone()]),
        (5, vec![Message::system("rules"), hi.clone(), call("e1"), result("e1"), hello.clone()]),
        // Messages that make the history invalid, so that it is repaired.
        (5, vec![hi.clone(), call("e1")]),
        (5, vec![hello, hi.clone()]),
        (5, vec![hi, call("e1"), result("e2")]),
    ])
}
