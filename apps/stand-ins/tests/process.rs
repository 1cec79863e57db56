//! `syncline demo`: the stand-ins as a process of their own, and what they saw.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use syncline_stand_ins::{Call, Figures, Stats};
use syncline_testing::process::{ask, run, syncline};

/// Running stand-ins.
struct Upstreams {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    origin: String,
    environment: Vec<(String, String)>,
}

impl Upstreams {
    /// Starts them on a free port, without any latency unless the flags given ask for some.
    fn start(flags: &[&str]) -> Upstreams {
        let mut arguments = vec!["demo", "upstreams", "--listen", "127.0.0.1:0", "--json"];
        if !flags.contains(&"--latency") {
            arguments.extend(["--latency", "0"]);
        }
        arguments.extend(flags);
        let mut child = syncline(&std::env::temp_dir(), &arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let first = line();
        let origin = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("{first:?}")).to_owned();
        let variables = std::iter::from_fn(|| Some(line())).take(5);
        let environment = variables
            .map(|line| {
                let (name, value) = line.strip_prefix("export ").unwrap().split_once('=').unwrap();
                (name.to_owned(), value.to_owned())
            })
            .collect();
        Upstreams { child, output, origin, environment }
    }

    /// The figures of one API so far.
    fn figures(&self, api: &str) -> Figures {
        let stats: Stats = serde_json::from_value(self.get("/stats")).unwrap();
        stats.apis.into_iter().find(|figures| figures.api == api).unwrap()
    }

    /// Every call to one API so far.
    fn calls(&self, api: &str) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        loop {
            let after = calls.last().map_or(0, |call| call.n);
            let page = self.get(&format!("/calls/{api}?after={after}"))["calls"].clone();
            let page: Vec<Call> = serde_json::from_value(page).unwrap();
            if page.is_empty() {
                return calls;
            }
            calls.extend(page);
        }
    }

    /// Stops them politely; what they say at the end.
    fn stop(mut self) -> Stats {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    fn get(&self, path: &str) -> Value {
        let address = self.origin.strip_prefix("http://").unwrap().parse().unwrap();
        let (status, body) = ask(address, "GET", path, &[], "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        // They may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn bk_04_the_stand_ins_say_where_they_are_and_at_the_end_what_they_saw() {
    let upstreams = Upstreams::start(&["--pace", "words=3600000"]);
    let names: Vec<&str> = upstreams.environment.iter().map(|(name, _)| name.as_str()).collect();
    let all = [
        "NDL_BASE_URL",
        "NDL_THUMBNAIL_BASE_URL",
        "GOOGLE_BOOKS_BASE_URL",
        "RAKUTEN_BASE_URL",
        "RAKUTEN_APPLICATION_ID",
    ];
    assert_eq!(names, all);
    assert_eq!(upstreams.get("/words/tide")["backwards"], "edit");
    let address = upstreams.origin.strip_prefix("http://").unwrap().parse().unwrap();
    assert_eq!(ask(address, "GET", "/words/tide", &[], "").0, 429);
    assert_eq!(upstreams.calls("words").iter().map(|call| call.status).collect::<Vec<_>>(), [200, 429]);
    let seen = upstreams.figures("words");
    assert_eq!((seen.calls, seen.too_many, seen.keys, seen.asked_again), (2, 1, 1, 1));
    assert_eq!(upstreams.stop().apis[4], seen);
}

#[test]
fn bk_04_a_behaviour_that_cannot_be_is_wrong_use() {
    let folder = tempfile::tempdir().unwrap();
    for flags in
        [["--flaky", "430=1"], ["--pace", "amazon=5"], ["--share", "google=2"], ["--retry-after", "x"]]
    {
        let arguments = [&["demo", "upstreams"][..], &flags].concat();
        assert_eq!(run(folder.path(), &arguments, &[]).status.code(), Some(2), "{flags:?}");
    }
    let isbns = run(folder.path(), &["demo", "isbns", "--unknown", "3"], &[]);
    assert_eq!(String::from_utf8(isbns.stdout).unwrap(), "9784990000011\n9784993861183\n9784997722350\n");
    let known = run(folder.path(), &["demo", "isbns", "40"], &[]);
    assert_eq!(String::from_utf8(known.stdout).unwrap().lines().count(), 40);
}
