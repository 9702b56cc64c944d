//! The results of an eval.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

use super::PassRate;

/// The results of an [`Eval`](super::Eval).
///
/// `Display` shows the report as text. [`to_json`](Self::to_json) converts the report to JSON, and
/// [`to_junit`](Self::to_junit) converts it to JUnit's XML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Name of the eval.
    pub name: String,
    /// The results of each case.
    pub cases: Vec<CaseReport>,
}

/// The results of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CaseReport {
    /// Name of the case.
    pub name: String,
    /// The results of each run.
    pub runs: Vec<RunReport>,
}

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunReport {
    /// The error of the agent. `None` if the agent had a result.
    pub error: Option<String>,
    /// The results of the checks. Empty after an error.
    pub checks: Vec<CheckReport>,
    /// Number of input and output tokens.
    pub tokens: usize,
    /// Number of model calls.
    pub turns: usize,
    /// Time of the run without its checks, in seconds.
    pub seconds: f64,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// Name of the check.
    pub name: String,
    /// The score, from 0 to 1.
    pub score: f64,
    /// `true` if the score reached the threshold of the check.
    pub passed: bool,
    /// The reason for the score. May be empty for a full score.
    pub reason: String,
}

impl Report {
    /// Returns the pass rate of all runs.
    #[must_use]
    pub fn pass_rate(&self) -> PassRate {
        rate_of(self.cases.iter().flat_map(|case| &case.runs))
    }

    /// Asserts that at least the share `minimum` of all runs passed. `minimum` is from 0 to 1.
    ///
    /// With few runs, the rate varies by chance. The confidence interval in [`PassRate`] shows by how much. Choose
    /// `minimum` and [`Eval::repeat`](super::Eval::repeat) accordingly.
    ///
    /// # Panics
    ///
    /// Panics with the report if the share is lower.
    #[track_caller]
    pub fn assert_pass_rate(&self, minimum: f64) {
        let rate = self.pass_rate().rate;
        assert!(rate >= minimum, "the pass rate {rate:.3} is below {minimum}\n{self}");
    }

    /// Returns the report as indented JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a report from the JSON that [`to_json`](Self::to_json) returned. Use it to [`compare`](Self::compare) with
    /// a stored report, for example of the main branch.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the JSON of a report.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// Returns the report as JUnit's XML. Each run is a test case.
    #[must_use]
    pub fn to_junit(&self) -> String {
        let rate = self.pass_rate();
        let name = escaped(&self.name);
        let all = || self.cases.iter().flat_map(|case| &case.runs);
        let errors = all().filter(|run| run.error.is_some()).count();
        let (runs, failed) = (rate.runs, rate.runs - rate.passed - errors);
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{name}\" \
             tests=\"{runs}\" failures=\"{failed}\" errors=\"{errors}\">\n"
        );
        for case in &self.cases {
            for (number, run) in case.runs.iter().enumerate() {
                let _ = write!(
                    xml,
                    "    <testcase classname=\"{name}\" name=\"{} {}\" time=\"{:.3}\"",
                    escaped(&case.name),
                    number + 1,
                    run.seconds
                );
                xml.push_str(&match run.failure() {
                    None => "/>\n".to_owned(),
                    Some(failure) => format!(
                        ">\n      <{} message=\"{}\"/>\n    </testcase>\n",
                        if run.error.is_some() { "error" } else { "failure" },
                        escaped(&failure)
                    ),
                });
            }
        }
        xml.push_str("  </testsuite>\n</testsuites>\n");
        xml
    }

    /// Compares this report with `baseline`, the report of another agent. Only the cases that are in both reports are
    /// compared.
    #[must_use]
    pub fn compare(&self, baseline: &Self) -> Comparison {
        let of = |report: &Self, name: &str| report.cases.iter().any(|case| case.name == name);
        let common = |report: &Self, other: &Self| {
            let cases = report.cases.iter().filter(|case| of(other, &case.name));
            rate_of(cases.flat_map(|case| &case.runs))
        };
        let (rate, before) = (common(self, baseline), common(baseline, self));
        let (difference, low, high) = rate.difference(&before);
        let changed = self.cases.iter().filter_map(|case| {
            let before = baseline.cases.iter().find(|other| other.name == case.name)?.pass_rate();
            let rate = case.pass_rate();
            (rate.passed * before.runs != before.passed * rate.runs)
                .then(|| (case.name.clone(), before, rate))
        });
        let without = |report: &Self, other: &Self| {
            let cases = report.cases.iter().filter(|case| !of(other, &case.name));
            cases.map(|case| case.name.clone()).collect::<Vec<_>>()
        };
        let left_out = [without(baseline, self), without(self, baseline)].concat();
        let changed = changed.collect();
        Comparison { baseline: before, rate, difference, low, high, changed, left_out }
    }
}

fn rate_of<'a>(runs: impl Iterator<Item = &'a RunReport>) -> PassRate {
    let (mut passed, mut total) = (0, 0);
    for run in runs {
        total += 1;
        passed += usize::from(run.passed());
    }
    PassRate::new(passed, total)
}

impl CaseReport {
    /// Returns the pass rate of the runs of the case.
    #[must_use]
    pub fn pass_rate(&self) -> PassRate {
        rate_of(self.runs.iter())
    }
}

impl RunReport {
    pub(super) fn failed(error: String, seconds: f64) -> Self {
        Self { error: Some(error), checks: Vec::new(), tokens: 0, turns: 0, seconds }
    }

    /// Returns `true` if the agent had a result and all checks passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.error.is_none() && self.checks.iter().all(|check| check.passed)
    }

    /// Returns the reasons of a failed run. `None` if the run passed.
    fn failure(&self) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(error.clone());
        }
        let failed = self.checks.iter().filter(|check| !check.passed);
        let reasons: Vec<String> = failed
            .map(|check| match check.reason.is_empty() {
                true => format!("{} (score {:.2})", check.name, check.score),
                false => format!("{}: {}", check.name, check.reason),
            })
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.pass_rate())?;
        for case in &self.cases {
            let rate = case.pass_rate();
            let mark = if rate.passed == rate.runs { "ok" } else { "FAILED" };
            writeln!(f, "  {mark} {}: {} of {}", case.name, rate.passed, rate.runs)?;
            for (number, run) in case.runs.iter().enumerate() {
                if let Some(failure) = run.failure() {
                    writeln!(f, "    run {}: {failure}", number + 1)?;
                }
            }
        }
        Ok(())
    }
}

/// Escapes a text for an attribute of XML. Characters that XML does not allow become spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            char if char.is_control() || matches!(char, '\u{FFFE}' | '\u{FFFF}') => {
                escaped.push(' ')
            }
            char => escaped.push(char),
        }
    }
    escaped
}

/// The difference between the reports of two agents.
///
/// Only the cases that are in both reports are compared, and the confidence interval is valid only for these cases.
/// More runs make the interval smaller. To learn how the agents differ in general, add more cases and vary them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Pass rate of the baseline.
    pub baseline: PassRate,
    /// Pass rate of the agent that is compared with the baseline.
    pub rate: PassRate,
    /// The pass rate minus the pass rate of the baseline.
    pub difference: f64,
    /// The lower end of the 95 % confidence interval of the difference.
    pub low: f64,
    /// The upper end of the 95 % confidence interval of the difference.
    pub high: f64,
    /// The cases whose pass rate differs. Each item has the name, the pass rate of the baseline, and the pass rate of
    /// the other agent.
    pub changed: Vec<(String, PassRate, PassRate)>,
    /// The names of the cases that are in only one of the two reports. These cases are not compared.
    pub left_out: Vec<String>,
}

impl Comparison {
    /// Returns `true` if the 95 % confidence interval of the difference does not contain 0.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        writeln!(f, "baseline: {}", self.baseline)?;
        writeln!(f, "compared: {}", self.rate)?;
        writeln!(
            f,
            "difference: {:+.0} points (95 % interval {:+.0} to {:+.0}), {}",
            percent(self.difference),
            percent(self.low),
            percent(self.high),
            if self.is_significant() { "significant" } else { "not significant" }
        )?;
        for (name, before, now) in &self.changed {
            let (before, all) = (before.passed, before.runs);
            writeln!(f, "  {name}: {before} of {all}, now {} of {}", now.passed, now.runs)?;
        }
        if !self.left_out.is_empty() {
            writeln!(
                f,
                "not compared, because only one report has them: {}",
                self.left_out.join(", ")
            )?;
        }
        Ok(())
    }
}
