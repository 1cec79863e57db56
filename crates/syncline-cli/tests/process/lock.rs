//! `syncline lock`: commands that run alone, and what happens when somebody dies.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use syncline_testing::process::{Node, run, syncline};

fn ask(node: &Node, arguments: &[&str]) -> Output {
    run(node.folder.path(), arguments, &[("SYNCLINE_URL", &node.url())])
}

fn start(node: &Node, arguments: &[&str]) -> Command {
    let mut command = syncline(node.folder.path(), arguments);
    command.env("SYNCLINE_URL", node.url());
    command
}

/// A shell under the lock that says its process number and then goes on until it is told to stop.
fn holder(node: &Node, options: &[&str], script: &str) -> (Child, Pid) {
    let mut arguments = vec!["lock", "run", "project"];
    arguments.extend(options);
    let script = format!("echo $$; {script}");
    arguments.extend(["--", "sh", "-c", &script]);
    let mut child = start(node, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    (child, pid)
}

fn wait_until_gone(pid: Pid) {
    while test_kill_process(pid).is_ok() {
        // Ended but not yet taken note of by its parent counts as gone.
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        if state.is_ok_and(|state| state.contains(") Z ")) {
            return;
        }
        std::thread::yield_now();
    }
}

fn locks(node: &Node) -> Vec<Value> {
    node.get("/api/locks")["locks"].as_array().unwrap().clone()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn lk_23_a_command_runs_with_the_lock_and_its_exit_code_is_ours() {
    let node = Node::start("");
    let script = "echo $SYNCLINE_LOCK_NAME $SYNCLINE_LOCK_TOKEN $SYNCLINE_LOCK_LEASE; exit 7";
    let ended = ask(&node, &["lock", "run", "project", "--", "sh", "-c", script]);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let out = String::from_utf8(ended.stdout).unwrap();
    let words: Vec<&str> = out.split_whitespace().collect();
    assert_eq!((words[0], words[2].len()), ("project", 36), "{out}");
    assert!(words[1].parse::<u64>().unwrap() > 0);
    assert_eq!(locks(&node), Vec::<Value>::new(), "given back");
    let again = ask(&node, &["lock", "run", "project", "--", "sh", "-c", "echo $SYNCLINE_LOCK_TOKEN"]);
    let next: u64 = String::from_utf8(again.stdout).unwrap().trim().parse().unwrap();
    assert!(again.status.success() && next > words[1].parse().unwrap());
    // A signal the command dies of, a command that is not there, and one that may not be run.
    assert_eq!(ask(&node, &["lock", "run", "p", "--", "sh", "-c", "kill -TERM $$"]).status.code(), Some(143));
    assert_eq!(ask(&node, &["lock", "run", "p", "--", "./no-such-program"]).status.code(), Some(127));
    assert_eq!(ask(&node, &["lock", "run", "p", "--", "/"]).status.code(), Some(126));
    assert_eq!(ask(&node, &["lock", "run", "a b", "--", "true"]).status.code(), Some(2));
    assert_eq!(ask(&node, &["lock", "run", "p", "--ttl", "0.1", "--", "true"]).status.code(), Some(2));
    assert_eq!(ask(&node, &["lock", "run", "p"]).status.code(), Some(2));
    assert_eq!(locks(&node), Vec::<Value>::new());
}

#[test]
fn lk_23_whoever_waits_is_told_for_whom_and_gets_it_at_once() {
    let node = Node::start("");
    let (mut first, _) = holder(&node, &["--holder", "ann"], "sleep 1000");
    let refused = ask(&node, &["lock", "run", "project", "--wait", "0", "--", "echo", "ran"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{refused:?}");
    assert!(said(&refused).contains("held by ann"), "{refused:?}");

    let listed = ask(&node, &["lock", "list"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.lines().nth(1).unwrap().starts_with("project  ann"), "{text}");
    let listed: Value =
        serde_json::from_slice(&ask(&node, &["lock", "list", "pro", "--json"]).stdout).unwrap();
    assert_eq!(listed["locks"][0]["holder"], "ann");
    assert_eq!(ask(&node, &["lock", "list", "other"]).stdout, b"no lock is held\n");

    let mut second = start(&node, &["lock", "run", "project", "--", "echo", "ran"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(second.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for project: held by ann, "), "{line}");
    // SIGTERM is passed on to the command.
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(143));
    let ended = second.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(0), b"ran\n".as_slice()), "{ended:?}");
}

#[test]
fn lk_23_a_lease_that_is_taken_away_stops_the_command_and_all_it_started() {
    let node = Node::start("");
    // Deaf to a polite request, and with a child of its own.
    let (child, pid) = holder(&node, &["--ttl", "1"], "trap '' TERM; sleep 1000 & wait; sleep 1000");
    let wrong = ask(&node, &["lock", "release", "project"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let released = ask(&node, &["lock", "release", "project", "--force"]);
    assert_eq!(released.stdout, b"released\n");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(said(&ended).contains("lost the lock project"), "{ended:?}");
    wait_until_gone(pid);
    assert_eq!(ask(&node, &["lock", "release", "project", "--force"]).stdout, b"nobody held it\n");
}

#[test]
fn lk_23_a_command_does_not_outlive_the_holder_of_its_lock_nor_a_node_that_is_gone() {
    let node = Node::start("");
    let (mut child, pid) = holder(&node, &["--ttl", "1"], "sleep 1000");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(pid);
    // The lease of the dead runs out, and the next one gets it without anybody's help.
    let (child, pid) = holder(&node, &["--ttl", "1"], "sleep 1000");
    drop(node.kill());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(said(&ended).contains("could not be renewed in time"), "{ended:?}");
    wait_until_gone(pid);
}

/// `lock run` was killed, its shell died, and the program that the shell had started ran on while the next one held the lock.
#[cfg(target_os = "linux")]
#[test]
fn lk_32_a_killed_holder_takes_everything_its_command_started_along() {
    let node = Node::start("");
    // In front, in the background, in a session of its own, and orphaned: each says its number first.
    let script = "sh -c 'echo $$; sleep 4411' & setsid sh -c 'echo $$; exec sleep 4412' & \
         (sh -c 'echo $$; exec sleep 4413' &) ; sh -c 'echo $$; sleep 4414'";
    let mut child = start(&node, &["lock", "run", "project", "--ttl", "2", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(4);
    let pids: Vec<Pid> = lines.map(|line| Pid::from_raw(line.unwrap().parse().unwrap()).unwrap()).collect();
    assert_eq!(pids.len(), 4);
    child.kill().unwrap();
    child.wait().unwrap();
    // Whoever gets the lock next finds none of them.
    let alive = pids.iter().map(|pid| format!("kill -0 {} 2>/dev/null && echo alive", pid.as_raw_nonzero()));
    let look = alive.collect::<Vec<_>>().join("; ") + "; true";
    let next = ask(&node, &["lock", "run", "project", "--", "sh", "-c", &look]);
    assert_eq!((next.status.code(), next.stdout.as_slice()), (Some(0), b"".as_slice()), "{next:?}");
}

#[test]
fn lk_32_what_a_command_leaves_in_the_background_ends_with_the_lease() {
    let node = Node::start("");
    let ended =
        ask(&node, &["lock", "run", "project", "--", "sh", "-c", "sleep 4415 >/dev/null & echo $!; exit 3"]);
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let pid: i32 = String::from_utf8(ended.stdout).unwrap().trim().parse().unwrap();
    assert!(test_kill_process(Pid::from_raw(pid).unwrap()).is_err(), "it is still there");
}

#[test]
fn lk_23_the_token_can_be_kept_from_the_command() {
    let node = Node::start("");
    let run = |options: &[&str]| {
        let mut arguments = vec!["lock", "run", "project"];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", "echo ${SYNCLINE_TOKEN:-none}"]);
        String::from_utf8(start(&node, &arguments).env("SYNCLINE_TOKEN", "canary").output().unwrap().stdout)
            .unwrap()
    };
    assert_eq!(run(&[]), "canary\n");
    assert_eq!(run(&["--hide-token"]), "none\n");
}

#[test]
fn lk_20_a_holder_that_was_frozen_stops_its_command_when_it_wakes() {
    let node = Node::start("");
    let (child, pid) = holder(&node, &["--ttl", "1"], "sleep 1000");
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    let next = ask(&node, &["lock", "run", "project", "--", "echo", "mine"]);
    assert_eq!(next.stdout, b"mine\n");
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(said(&ended).contains("lost the lock project"), "{ended:?}");
    wait_until_gone(pid);
}

/// Increments a number in a file without any care of its own: only the lock keeps the increments apart.
#[test]
fn lk_20_careless_increments_by_many_processes_are_all_counted() {
    let node = Node::start("");
    let file = node.folder.path().join("number");
    std::fs::write(&file, "0").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let script = format!("n=$(cat {0}); sleep 0.01; echo $((n + 1)) > {0}", shown(&file));
                    let ended = ask(&node, &["lock", "run", "number", "--", "sh", "-c", &script]);
                    assert!(ended.status.success(), "{ended:?}");
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "20");
}

#[test]
fn lk_23_a_token_grows_although_the_node_is_killed_between_two_grants() {
    let mut node = Node::start("");
    let mut last = 0;
    for _ in 0..5 {
        let got = ask(&node, &["lock", "run", "p", "--", "sh", "-c", "echo $SYNCLINE_LOCK_TOKEN"]);
        let token: u64 = String::from_utf8(got.stdout).unwrap().trim().parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        node = Node::start_in(node.kill(), "", &[]);
    }
}

/// A caller that hangs up while it waits is not served, and whoever comes after it is.
#[test]
fn lk_21_a_caller_that_hangs_up_leaves_the_line() {
    use std::io::Write;

    let node = Node::start("");
    let (status, lease) = node.ask("POST", "/api/locks/project/acquire", &[], "{}");
    assert_eq!(status, 200);
    let lease: Value = serde_json::from_str(&lease).unwrap();
    let body = "{\"holder\":\"gone\",\"wait_ms\":20000,\"ttl_ms\":3600000}";
    let mut stream = node.connect();
    let head = format!(
        "POST /api/locks/project/acquire HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        node.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let waiting = |number: &str| {
        let (_, metrics) = node.ask("GET", "/metrics", &[], "");
        metrics.lines().any(|line| line == format!("syncline_lock_waiting {number}"))
    };
    while !waiting("1") {
        std::thread::yield_now();
    }
    drop(stream);
    while !waiting("0") {
        std::thread::yield_now();
    }
    let release = format!("{{\"leaseId\":{}}}", lease["leaseId"]);
    assert_eq!(node.ask("POST", "/api/locks/project/release", &[], &release).0, 200);
    assert_eq!(node.ask("POST", "/api/locks/project/acquire", &[], "{\"wait_ms\":20000}").0, 200);
    assert_eq!(locks(&node)[0]["holder"], "anonymous");
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
