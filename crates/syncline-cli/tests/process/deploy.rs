//! What `deploy/` holds is true of the programs it is for.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use syncline_node::part::Kind;
use syncline_testing::process::{Node, ask, serversync};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every `syncline_…` in `text`, without what Prometheus appends to a histogram's name.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("syncline_"));
    let suffixes = ["_bucket", "_count", "_sum"];
    ours.map(|word| suffixes.iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word).to_owned())
        .collect()
}

/// What a `serversync` shows that sends to this node.
fn metrics_of_worker(node: &Node) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serversync(folder.path(), &[]);
    command.env("DATABASE_URL", "sqlite:box.db?mode=rwc").env("FRONTEND_BASE_URL", node.url());
    command.env("SYNC_METRICS_LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut worker = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(worker.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    let address = first.trim_end().strip_prefix("listening on http://").unwrap().parse().unwrap();
    let (status, text) = ask(address, "GET", "/metrics", &[], "");
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!(status, 200, "{text}");
    text
}

#[test]
fn ss_12_every_metric_in_alerts_and_dashboard_is_one_that_a_program_shows() {
    let apps = syncline_cli::all_parts().into_iter().filter(|part| part.kind() == Kind::App);
    let apps: Vec<&str> = apps.map(|part| part.name()).collect();
    let node = Node::start_in(tempfile::tempdir().unwrap(), "", &[("SYNCLINE_APPS", &apps.join(","))]);
    let (_, of_node) = node.ask("GET", "/metrics", &[], "");
    let shown = metrics(&(of_node + &metrics_of_worker(&node)));
    assert!(shown.contains("syncline_outbox_pending") && shown.contains("syncline_http_requests_total"));
    for (file, least) in [("prometheus-alerts.yml", 8), ("grafana-dashboard.json", 25)] {
        // The query that finds the instances has a pattern of names instead of one.
        let named = metrics(&read(file).replace("syncline_(outbox_pending|node_info)", ""));
        assert!(named.len() >= least, "{file} names only {named:?}");
        let unknown: Vec<_> = named.difference(&shown).collect();
        assert!(unknown.is_empty(), "{file}: no program shows {unknown:?}");
    }
}

#[test]
fn ss_12_the_dashboard_is_json_whose_panels_do_not_overlap() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut cells = BTreeSet::new();
    for panel in panels {
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && cells.insert((x, y)), "{} lies on another panel", panel["title"]);
            }
        }
    }
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
}

#[test]
fn ss_12_the_alerts_are_those_that_were_asked_for() {
    let alerts = read("prometheus-alerts.yml");
    for expression in ["syncline_outbox_pending > 1000", "syncline_outbox_oldest_age_seconds > 3600"] {
        assert!(alerts.contains(&format!("expr: {expression}\n")), "{expression}");
    }
}

/// State, inbox, breakers, failed keys and the time of jobs had no panel; a full space and a receiver that is away had no alert.
#[test]
fn cn_22_every_system_has_a_panel_and_an_alert_and_the_process_is_measured() {
    let (dashboard, alerts) = (read("grafana-dashboard.json"), read("prometheus-alerts.yml"));
    for system in ["state", "lock", "outbox", "queue", "viewer", "schedule", "http"] {
        let name = format!("syncline_{system}_");
        assert!(dashboard.contains(&name), "no panel of {system}");
        assert!(alerts.contains(&name), "no alert of {system}");
    }
    for name in
        ["syncline_inbox_", "syncline_audit_", "process_resident_memory_bytes", "process_cpu_seconds_total"]
    {
        assert!(dashboard.contains(name), "no panel of {name}");
    }
    let node = Node::start_in(tempfile::tempdir().unwrap(), "", &[("SYNCLINE_NODE", "shop-1")]);
    let (_, shown) = node.ask("GET", "/metrics", &[], "");
    assert!(shown.contains("process_resident_memory_bytes "), "{shown}");
    assert!(shown.contains("syncline_node_name_info{node=\"shop-1\"} 1"), "{shown}");
    // The worker of the same database shows the outbox; a node that did too would count it twice.
    assert!(!shown.contains("syncline_outbox_pending"), "{shown}");
    assert!(!shown.contains("job=\""), "{shown}");
    let (_, nodes) = node.ask("GET", "/api/nodes", &[], "");
    assert!(nodes.contains("\"node\":\"shop-1\""), "{nodes}");
}

/// systemd reads the units with the programs under test in their places. Where there is no systemd, there is nobody to ask.
#[test]
fn ss_12_systemd_finds_nothing_wrong_with_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("systemd-analyze is not here: the units were not verified");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs =
        [("syncline", env!("CARGO_BIN_EXE_syncline")), ("serversync", env!("CARGO_BIN_EXE_serversync"))];
    for (name, program) in programs {
        let unit = read(&format!("{name}.service"));
        let installed = format!("ExecStart=/usr/local/bin/{name}");
        assert!(unit.contains(&installed), "{name}.service starts something else");
        let path = folder.path().join(format!("{name}.service"));
        std::fs::write(&path, unit.replace(&installed, &format!("ExecStart={program}"))).unwrap();
        let verify =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&verify.stderr);
        assert!(verify.status.success() && said.is_empty(), "{name}.service: {said}");
    }
}

#[test]
fn ss_12_the_environment_samples_hold_settings_that_the_programs_take() {
    let set = |line: &str| {
        let line = line.trim_start_matches('#');
        let (name, value) = line.split_once('=')?;
        let is_name = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        (is_name && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    let sample = read("serversync.env");
    let folder = tempfile::tempdir().unwrap();
    let mut check = serversync(folder.path(), &["--check"]);
    // Those that are commented out too; of two for one name the later one wins.
    let environment = check.envs(sample.lines().filter_map(set));
    // It looks into the database, and the sample's is not here. To listen past a pooler is for PostgreSQL alone.
    environment.env("DATABASE_URL", "sqlite:box.db?mode=rwc").env_remove("DATABASE_LISTEN_URL");
    let output = environment.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("SYNC_METRICS_LISTEN=127.0.0.1:9464"), "{shown}");
}
