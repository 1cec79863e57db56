//! Counting tests from what the runners themselves report. Nothing here guesses: a report that cannot be read is an
//! error, not a zero.

use std::ops::AddAssign;

use anyhow::{Context, Result};
use serde_json::Value;

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Of those that passed, how many did so only at a second try.
    pub(crate) unsteady: u64,
}

impl Count {
    pub(crate) fn ran(self) -> u64 {
        self.passed + self.failed
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.unsteady += other.unsteady;
    }
}

/// `12 passed, 0 failed`, and what was skipped or unsteady only where something was.
impl std::fmt::Display for Count {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(out, ", {} skipped", self.skipped)?;
        }
        if self.unsteady > 0 {
            write!(out, ", {} of them only at the second try", self.unsteady)?;
        }
        Ok(())
    }
}

/// Reads nextest's closing line: `Summary [ 1.2s] 9 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 2 skipped`.
///
/// A run that was cut short says `5/9 tests run`: the four that never ran count as failed.
pub(crate) fn nextest(line: &str) -> Option<Count> {
    let (_, summary) = line.trim().strip_prefix("Summary [")?.split_once(']')?;
    let (run, results) = summary.split_once(" run:")?;
    let run = run.trim().trim_end_matches(" tests").trim_end_matches(" test");
    let missed = match run.split_once('/') {
        Some((ran, all)) => all.parse::<u64>().ok()?.checked_sub(ran.parse().ok()?)?,
        None => 0,
    };
    let mut count = Count { failed: missed, unsteady: flaky(results)?, ..Count::default() };
    for part in outside_parentheses(results).split(',') {
        let (number, what) = part.trim().split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match what.trim() {
            "passed" => count.passed += number,
            "skipped" => count.skipped += number,
            // Failed, timed out, could not be started: whatever is not a pass is a failure.
            _ => count.failed += number,
        }
    }
    Some(count)
}

/// The number in `9 passed (1 slow, 2 flaky)`; nothing where nextest names none.
fn flaky(results: &str) -> Option<u64> {
    let Some((before, _)) = results.split_once(" flaky") else { return Some(0) };
    before.rsplit([' ', '(']).next()?.parse().ok()
}

/// Reads a line of rustdoc's test runner; there is one per crate, and they add up.
pub(crate) fn rustdoc(line: &str) -> Option<Count> {
    let (_, results) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |what: &str| {
        results.split(';').find_map(|part| part.trim().strip_suffix(what)?.trim().parse::<u64>().ok())
    };
    Some(Count {
        passed: number(" passed")?,
        failed: number(" failed")?,
        skipped: number(" ignored")?,
        unsteady: 0,
    })
}

/// Adds a line of the closing block of Node's test runner, which starts with `ℹ` on a terminal and `#` elsewhere.
pub(crate) fn node(line: &str, count: &mut Count) {
    let Some(rest) = line.strip_prefix("ℹ ").or_else(|| line.strip_prefix("# ")) else { return };
    let Some((what, number)) = rest.split_once(' ') else { return };
    let Ok(number) = number.trim().parse::<u64>() else { return };
    match what {
        "pass" => count.passed += number,
        "fail" | "cancelled" => count.failed += number,
        "skipped" | "todo" => count.skipped += number,
        _ => {}
    }
}

/// Reads Playwright's JSON report. It knows a test that passed only when tried again as `flaky`.
pub(crate) fn playwright(report: &str) -> Result<Count> {
    let report: Value = serde_json::from_str(report).context("Playwright's report is no JSON")?;
    let number = |name: &str| {
        report["stats"][name].as_u64().with_context(|| format!("Playwright's report has no stats.{name}"))
    };
    Ok(Count {
        passed: number("expected")? + number("flaky")?,
        failed: number("unexpected")?,
        skipped: number("skipped")?,
        unsteady: number("flaky")?,
    })
}

/// How many of the tests in nextest's JUnit report talked to PostgreSQL.
///
/// By convention such a test has `postgres` in its path. Unit tests are left out: some of them only talk about it, and
/// this number must not claim too much.
pub(crate) fn postgres(junit: &str) -> Result<Count> {
    let document = roxmltree::Document::parse(junit).context("nextest's JUnit report is no XML")?;
    let mut count = Count::default();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let binary = case.attribute("classname").context("a JUnit test case has no classname")?;
        let name = case.attribute("name").context("a JUnit test case has no name")?;
        let integration = binary.contains("::") && !binary.contains("::bin/");
        if !integration || !(name.contains("postgres") || binary.contains("postgres")) {
            continue;
        }
        let failed = case.children().any(|node| node.has_tag_name("failure") || node.has_tag_name("error"));
        count += if failed {
            Count { failed: 1, ..Count::default() }
        } else {
            Count { passed: 1, ..Count::default() }
        };
    }
    Ok(count)
}

fn outside_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let mut kept = String::new();
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(character),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(passed: u64, failed: u64, skipped: u64) -> Count {
        Count { passed, failed, skipped, unsteady: 0 }
    }

    fn unsteady(count: Count, unsteady: u64) -> Count {
        Count { unsteady, ..count }
    }

    #[test]
    fn nextests_summary_is_counted_and_whatever_did_not_pass_failed() {
        for (line, expected) in [
            (
                "     Summary [   2.043s] 4 tests run: 2 passed, 1 failed, 1 timed out, 1 skipped",
                count(2, 2, 1),
            ),
            ("     Summary [   0.000s] 0 tests run: 0 passed, 5 skipped", count(0, 0, 5)),
            ("     Summary [   0.082s] 1/4 tests run: 0 passed, 1 failed, 1 skipped", count(0, 4, 1)),
            ("     Summary [   0.010s] 1 test run: 1 passed, 0 skipped", count(1, 0, 0)),
            (
                "Summary [ 61.4s] 90 tests run: 88 passed (3 slow, 1 leaky), 2 exec failed, 0 skipped",
                count(88, 2, 0),
            ),
            (
                "Summary [ 9.0s] 9 tests run: 9 passed (1 slow, 2 flaky), 0 skipped",
                unsteady(count(9, 0, 0), 2),
            ),
            ("Summary [ 9.0s] 9 tests run: 8 passed (1 flaky), 1 failed", unsteady(count(8, 1, 0), 1)),
        ] {
            assert_eq!(nextest(line), Some(expected), "{line}");
        }
        assert_eq!(nextest("        FAIL [   0.109s] (3/4) nx postgres::bad"), None);
        assert_eq!(nextest("Summary of the chapter"), None);
    }

    #[test]
    fn rustdocs_result_is_counted() {
        let line = "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.07s";
        assert_eq!(rustdoc(line), Some(count(1, 1, 1)));
        assert_eq!(rustdoc("test src/lib.rs - f (line 5) ... ok"), None);
    }

    #[test]
    fn nodes_closing_block_is_counted_in_both_spellings() {
        for mark in ["ℹ", "#"] {
            let mut counted = Count::default();
            let block = "tests 5|suites 0|pass 2|fail 1|cancelled 1|skipped 1|todo 0|duration_ms 161.330037";
            block.split('|').for_each(|line| node(&format!("{mark} {line}"), &mut counted));
            assert_eq!(counted, count(2, 2, 1));
        }
    }

    #[test]
    fn a_playwright_test_that_needed_a_second_try_is_told() {
        let report = r#"{ "config": {}, "suites": [], "errors": [],
            "stats": { "startTime": "2026-01-01T00:00:00.000Z", "duration": 1892.5, "expected": 7, "skipped": 1, "unexpected": 2, "flaky": 1 } }"#;
        assert_eq!(playwright(report).unwrap(), unsteady(count(8, 2, 1), 1));
        assert!(playwright("{}").unwrap_err().to_string().contains("stats.expected"));
        assert!(playwright("Error: no tests found").is_err());
    }

    #[test]
    fn tests_on_a_real_database_are_known_by_their_path() {
        let junit = r#"<?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="nextest-run" tests="6" skipped="0" failures="2" errors="0" time="2.043">
              <testsuite name="syncline-store::conformance" tests="4">
                <testcase name="postgres::vw_03_a_value_lives" classname="syncline-store::conformance" time="0.1"/>
                <testcase name="postgres::vw_04" classname="syncline-store::conformance" time="0.1">
                  <failure message="thread &apos;x&apos; panicked" type="test failure">&lt;oops&gt;</failure>
                  <system-out>running 1 test</system-out>
                </testcase>
                <testcase name="sqlite::vw_03_a_value_lives" classname="syncline-store::conformance" time="0.1"/>
                <testcase name="vw_09_three_nodes_one_run" classname="syncline-cli::postgres_cluster" time="0.1"/>
              </testsuite>
              <testsuite name="syncline-sim" tests="1">
                <testcase name="postgres::tests::a_name" classname="syncline-sim" time="0.1"/>
              </testsuite>
              <testsuite name="xtask::bin/xtask" tests="1">
                <testcase name="tests::postgres" classname="xtask::bin/xtask" time="0.1"/>
              </testsuite>
            </testsuites>"#;
        assert_eq!(postgres(junit).unwrap(), count(2, 1, 0));
        assert!(postgres("").is_err());
    }

    #[test]
    fn the_closing_line_names_skipped_tests_only_where_there_are_any() {
        let mut total = count(3, 0, 0);
        assert_eq!(total.to_string(), "3 passed, 0 failed");
        total += count(1, 2, 4);
        assert_eq!(total.to_string(), "4 passed, 2 failed, 4 skipped");
        total.unsteady = 2;
        assert_eq!(total.to_string(), "4 passed, 2 failed, 4 skipped, 2 of them only at the second try");
    }
}
