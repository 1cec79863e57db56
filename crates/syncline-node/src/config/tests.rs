//! Layers, files with mistakes, and what is printed.

mod access;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use syncline_core::outbox::EntityType;
use syncline_core::queue::Settings as Pace;
use syncline_core::schedule::Gate;

use super::*;
use crate::inbox::{EntityKind, FileType};
use crate::part::{BuildError, Setup};
use crate::queue::{Doer, PartQueue};
use crate::schedule::{JobKind, Run};

/// An app that declares one of everything that a system reads, and the parts that it needs.
struct App(&'static [&'static str]);

#[async_trait]
impl Part for App {
    fn name(&self) -> &'static str {
        "painter"
    }

    fn about(&self) -> &'static str {
        "An app of these tests"
    }

    fn needs(&self) -> &'static [&'static str] {
        self.0
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        settings.tell(JobKind { word: "paint", by_default: true });
        let pace = Pace::new(1, Duration::from_millis(100), Duration::from_millis(500));
        settings.tell(PartQueue { name: "mixing", settings: pace });
        settings.tell(EntityKind { entity_type: EntityType::new("brush").unwrap(), editable: true });
        settings.tell(FileType { name: "sketch_file", path: "/api/sketches" });
    }

    async fn build(&self, _: &mut Setup<'_>) -> Result<(), BuildError> {
        Ok(())
    }
}

/// Reads what a system reads, and keeps it for the test.
struct Probe<T>(fn(&Settings<'_>) -> T, Arc<Mutex<Option<T>>>);

#[async_trait]
impl<T: Send> Part for Probe<T> {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn about(&self) -> &'static str {
        "Looks on"
    }

    fn kind(&self) -> Kind {
        Kind::System
    }

    fn configure(&mut self, settings: &mut Settings<'_>) {
        *self.1.lock().unwrap() = Some((self.0)(settings));
    }

    async fn build(&self, _: &mut Setup<'_>) -> Result<(), BuildError> {
        Ok(())
    }
}

/// What `read` makes of a file that has nothing else in it.
fn probe<T: Send + 'static>(file: &str, read: fn(&Settings<'_>) -> T) -> T {
    let found = Arc::new(Mutex::new(None));
    let file = written(file);
    let apps = Some("painter".to_owned());
    let flags = Flags { config: Some(file.path().to_owned()), apps, ..Flags::default() };
    let parts: Vec<Box<dyn Part>> = vec![Box::new(App(&[])), Box::new(Probe(read, Arc::clone(&found)))];
    Config::load(&flags, &|_| None, parts).unwrap();
    found.lock().unwrap().take().unwrap()
}

fn parts() -> Vec<Box<dyn Part>> {
    let mut parts = crate::systems();
    parts.push(Box::new(App(&["viewer"])));
    parts
}

fn written(file: &str) -> tempfile::NamedTempFile {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    written
}

fn load(file: &str) -> Result<Config, Error> {
    load_with(file, Flags::default(), &[])
}

fn load_with(file: &str, flags: Flags, environment: &[(&str, &str)]) -> Result<Config, Error> {
    let file = written(file);
    let flags = Flags { config: Some(file.path().to_owned()), ..flags };
    let environment: Vec<(String, String)> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let environment =
        move |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    Config::load(&flags, &environment, parts())
}

/// The problems of a file, each as `line:column: key: what; hint`.
fn problems(file: &str) -> Vec<String> {
    match load(file) {
        Ok(config) => panic!("accepted as {config:?}"),
        Err(Error::Invalid(problems)) => problems.iter().map(without_path).collect(),
        Err(other) => vec![other.to_string()],
    }
}

fn without_path(problem: &Problem) -> String {
    match &problem.place {
        Place::File { path, .. } => problem.to_string().replace(&format!("{}:", path.display()), ""),
        _ => problem.to_string(),
    }
}

#[test]
fn without_a_word_a_node_is_local_and_has_all_systems_and_no_app() {
    let config = Config::load(&Flags::default(), &|_| None, parts()).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:3000");
    assert_eq!(config.database_url.expose(), "sqlite:./data/syncline.db");
    assert!(config.token.is_none());
    let systems = ["access", "kv", "lock", "state", "queue", "viewer", "outbox"];
    assert_eq!(config.parts.names(Kind::System), systems);
    assert!(config.parts.names(Kind::App).is_empty());
}

#[test]
fn hs_03_parts_are_chosen_by_flag_environment_and_file_and_mistakes_are_named() {
    let names = |flags: Flags, environment: &[(&str, &str)], file: &str| {
        let parts = load_with(file, flags, environment).unwrap().parts;
        (parts.names(Kind::System).join(","), parts.names(Kind::App).join(","))
    };
    let file = "systems = [\"viewer\", \"lock\"]\napps = [\"painter\"]\n";
    let both = |systems: &str, apps: &str| (systems.to_owned(), apps.to_owned());
    assert_eq!(names(Flags::default(), &[], file), both("lock,viewer", "painter"));
    let environment = [("SYNCLINE_SYSTEMS", "queue, lock"), ("SYNCLINE_APPS", "")];
    let file = "apps = []";
    assert_eq!(names(Flags::default(), &environment, file), both("lock,queue", ""));
    let flags = Flags { systems: Some("state".to_owned()), ..Flags::default() };
    assert_eq!(names(flags, &environment, file), both("state", ""));
    for (file, problem) in [
        ("systems = [\"lok\"]", "systems: expected some of access, kv, lock, state"),
        ("apps = [\"lock\"]", "apps: expected some of painter, found \"lock\""),
        ("systems = [\"lock\"]\napps = [\"painter\"]", "apps: painter needs viewer, which is not on"),
    ] {
        let found = problems(file);
        assert!(found[0].contains(problem), "{found:?}");
    }
}

#[test]
fn a_job_of_a_part_runs_where_the_file_says_nothing_of_jobs() {
    let jobs = probe("", crate::schedule::config::read);
    let [job] = jobs.as_slice() else { panic!("one job expected: {jobs:?}") };
    assert_eq!((job.name.as_str(), job.cron.as_str(), job.cost.as_usd()), ("paint", "* * * * *", 0.002));
    assert!(matches!((job.gate, &job.run, job.on_arrival), (Gate::Viewers, Run::Kind("paint"), false)));
}

#[test]
fn flags_win_over_environment_over_file_over_default() {
    let file = "listen = \"127.0.0.1:1\"\n";
    let flags = Flags { listen: Some("127.0.0.1:3".to_owned()), ..Flags::default() };
    let environment = [("SYNCLINE_LISTEN", "127.0.0.1:2")];
    let port = |flags: Flags, environment: &[(&str, &str)], file: &str| {
        load_with(file, flags, environment).unwrap().listen.port()
    };
    assert_eq!(port(flags, &environment, file), 3);
    assert_eq!(port(Flags::default(), &environment, file), 2);
    assert_eq!(port(Flags::default(), &[("SYNCLINE_LISTEN", "")], file), 1);
    assert_eq!(port(Flags::default(), &[], ""), 3000);
}

#[test]
fn op_05_the_database_is_set_by_file_environment_and_flag_and_mistakes_are_named() {
    let read = |flags: Flags, environment: &[(&str, &str)], file: &str| {
        let config = load_with(file, flags, environment).unwrap();
        let listen = config.database_listen_url.as_ref().map(|url| url.expose().to_owned());
        (listen, config.database_connections, config.schema, config.migrate)
    };
    let url = |host: &str| Some(format!("postgres://ann:canary@{host}/db"));
    assert_eq!(read(Flags::default(), &[], ""), (None, 10, "syncline".to_owned(), true));
    let file = "database_url = \"postgres://pooler/db\"\ndatabase_listen_url = \"postgres://ann:canary@file/db\"\n\
         database_connections = 3\nschema = \"file\"\nmigrate = false\n";
    assert_eq!(read(Flags::default(), &[], file), (url("file"), 3, "file".to_owned(), false));
    let environment = [
        ("DATABASE_LISTEN_URL", "postgres://ann:canary@environment/db"),
        ("DATABASE_CONNECTIONS", "4"),
        ("SYNCLINE_SCHEMA", "environment"),
        ("SYNCLINE_MIGRATE", "true"),
    ];
    let from_environment = (url("environment"), 4, "environment".to_owned(), true);
    assert_eq!(read(Flags::default(), &environment, file), from_environment);
    let flags = Flags {
        database_listen_url: url("flag"),
        database_connections: Some("5".to_owned()),
        schema: Some("flag".to_owned()),
        no_migrate: true,
        ..Flags::default()
    };
    assert_eq!(read(flags, &environment, file), (url("flag"), 5, "flag".to_owned(), false));

    let config = load(file).unwrap();
    assert!(config.secrets().contains(&"canary".to_owned()), "{:?}", config.secrets());
    let printed = config.to_string();
    assert!(printed.contains("database_connections = 3") && !printed.contains("canary"), "{printed}");
    for (environment, problem) in [
        (("DATABASE_CONNECTIONS", "1"), "database_connections: expected a number from 2 to 500"),
        (("DATABASE_LISTEN_URL", "sqlite:x.db"), "database_listen_url: expected postgres://"),
        (("DATABASE_LISTEN_URL", "postgres://h/db"), "database_listen_url: is for PostgreSQL"),
        (("SYNCLINE_MIGRATE", "perhaps"), "migrate: expected true or false"),
    ] {
        let wrong = load_with("", Flags::default(), &[environment]).unwrap_err().to_string();
        assert!(wrong.starts_with(&format!("environment {}: {problem}", environment.0)), "{wrong}");
    }
}

#[test]
fn a_mistake_is_named_with_its_source() {
    let wrong = load_with("", Flags::default(), &[("SYNCLINE_LISTEN", "3000")]).unwrap_err().to_string();
    assert!(wrong.starts_with("environment SYNCLINE_LISTEN: listen: expected an address"), "{wrong}");
    let flags = Flags { log_format: Some("xml".to_owned()), ..Flags::default() };
    let wrong = load_with("", flags, &[]).unwrap_err().to_string();
    assert!(wrong.starts_with("flag --log-format: log.format: expected auto, human or json"), "{wrong}");
}

#[test]
fn every_mistake_in_a_file_is_named_with_line_column_key_and_expectation() {
    let cases = [
        ("lisen = \"127.0.0.1:1\"", "1:1: lisen: unknown key; did you mean `listen`?"),
        ("\n[viewer]\nmax_session = 5", "3:1: viewer.max_session: unknown key; did you mean `max_sessions`?"),
        ("[colour]\nx = 1", "1:2: colour: unknown key; known here: listen, "),
        ("listen = 3000", "1:10: listen: expected a text in quotes, found a value of type integer"),
        ("  listen = \"here\"", "1:12: listen: expected an address with a port, such as 127.0.0.1:3000"),
        (
            "[limits]\nconnections = 0",
            "2:15: limits.connections: expected a whole number from 16 to 1000000, found 0",
        ),
        ("allowed_hosts = [\"a\", \"*\"]", "1:23: allowed_hosts[1]: expected a host name"),
        ("[viewer]\nallowed_origins = [\"*\"]", "2:20: viewer.allowed_origins[0]: expected an origin"),
        ("[log]\nlevel = \"inf\"", "2:9: log.level: expected one of off, error, warn, info, debug, trace"),
        ("public_base_url = \"ftp://x\"", "1:19: public_base_url: expected an address such as https://"),
        ("[[jobs]]\ncron = \"* * * * *\"\nrun = \"paint\"", "1:1: jobs[0].name: missing, expected a name"),
        ("[[jobs]]\nname = \"a\"\nrun = \"paint\"", "1:1: jobs[0].cron: missing, expected a cron expression"),
        (
            "[[jobs]]\nname = \"A b\"\ncron = \"* * * * *\"\nrun = \"paint\"",
            "2:8: jobs[0].name: expected 1 to 64 of",
        ),
        (
            "[[jobs]]\nname = \"a\"\ncron = \"* * *\"\nrun = \"paint\"",
            "3:8: jobs[0].cron: expected a cron expression",
        ),
        (
            "jobs = [{ name = \"a\", cron = \"* * * * *\", run = \"pain\" }]",
            "1:49: jobs[0].run: expected one of paint",
        ),
        (
            "[[jobs]]\nname = \"a\"\ncron = \"* * * * *\"\ngate = \"viewer\"\nrun = \"paint\"",
            "4:8: jobs[0].gate: expected one of viewers, visible-viewers, always, found \"viewer\"; did you mean \"viewers\"?",
        ),
        (
            "[[jobs]]\nname = \"a\"\ncron = \"* * * * *\"\nrun = { http = { url = \"file:///etc/passwd\" } }",
            "4:24: jobs[0].run.http.url: expected an http or https address",
        ),
        (
            "[[jobs]]\nname = \"a\"\ncron = \"* * * * *\"\nrun = { command = [] }",
            "4:19: jobs[0].run.command: expected a program and its arguments",
        ),
        (
            "[[jobs]]\nname = \"a\"\ncron = \"* * * * *\"\nrun = { comand = [\"x\"] }",
            "4:7: jobs[0].run: expected { http",
        ),
    ];
    for (file, expected) in cases {
        let found = problems(file);
        assert!(found[0].starts_with(expected), "for {file:?}\nexpected {expected}\nfound    {found:?}");
    }
}

#[test]
fn broken_syntax_is_named_with_line_and_column() {
    let found = problems("listen = \"127.0.0.1:1\"\ndata = \n");
    assert!(found[0].starts_with("2:8: "), "{found:?}");
    assert!(!found[0].contains('\n'), "{found:?}");
}

#[test]
fn all_mistakes_are_told_at_once_and_names_of_jobs_are_unique() {
    let job = "[[jobs]]\nname = \"twice\"\ncron = \"* * * * *\"\nrun = \"paint\"\n";
    let found = problems(&format!("dta = \"x\"\n{job}{job}\n[viewer]\ntrust_forwarded_for = 1\n"));
    for expected in
        ["dta: unknown key", "jobs[1].name: another job", "viewer.trust_forwarded_for: expected true"]
    {
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected} in {found:?}");
    }
}

#[test]
fn jobs_can_be_calls_commands_or_absent() {
    assert!(probe("jobs = []", crate::schedule::config::read).is_empty());
    let jobs = probe(
        r#"
        [[jobs]]
        name = "report"
        cron = "*/5 * * * *"
        gate = "visible-viewers"
        cost_usd = 1
        retries = 2
        on_arrival = true
        run = { http = { url = "https://hooks.example/run?key=canary-1", method = "PUT", body = "{}", headers = { authorization = "Bearer canary-2" } } }

        [[jobs]]
        name = "tidy"
        cron = "0 3 * * *"
        gate = "always"
        run = { command = ["tidy", "--all"] }
        "#,
        crate::schedule::config::read,
    );
    let [report, tidy] = jobs.as_slice() else { panic!("two jobs expected") };
    let Run::Http(call) = &report.run else { panic!("a call expected") };
    assert_eq!((call.method.as_str(), call.headers[0].1.expose()), ("PUT", "Bearer canary-2"));
    assert_eq!((report.retries, report.on_arrival, report.gate), (2, true, Gate::VisibleViewers));
    let Run::Command { program, arguments, .. } = &tidy.run else { panic!("a command expected") };
    assert_eq!((program.as_str(), arguments.as_slice()), ("tidy", ["--all".to_owned()].as_slice()));
}

#[test]
fn beyond_loopback_a_token_is_required() {
    for listen in ["0.0.0.0:0", "[::]:3000", "192.168.1.5:3000"] {
        let error = load(&format!("listen = {listen:?}")).unwrap_err();
        assert!(matches!(error, Error::TokenRequired { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
        for token in ["x", "only-15-letters"] {
            let error = load(&format!("listen = {listen:?}\ntoken = {token:?}")).unwrap_err();
            assert!(matches!(error, Error::TokenShort { .. }), "{error}");
            assert!(error.to_string().contains("openssl rand"), "{error}");
            assert!(!error.to_string().contains("only-15"), "{error}");
        }
        load(&format!("listen = {listen:?}\ntoken = \"sixteen-letters!\"")).unwrap();
    }
    for listen in ["127.0.0.1:0", "[::1]:0", "localhost:0", "127.8.9.1:0"] {
        load(&format!("listen = {listen:?}")).unwrap();
    }
}

/// The print showed the path of a webhook, its user, the body of a call and the arguments of a command, each of which is
/// where somebody keeps a credential.
#[test]
fn whatever_may_be_a_credential_is_in_no_print() {
    let file = r#"
        [[jobs]]
        name = "hook"
        cron = "* * * * *"
        input = "https://canary-user@x.example/canary-path"
        run = { http = { url = "https://canary-user@x.example/services/canary-path", body = "canary-body" } }
        [[jobs]]
        name = "program"
        cron = "* * * * *"
        run = { command = ["backup", "--password", "canary-argument"] }
        [[queues]]
        name = "geocode"
        url = "https://api.example/canary-path/{key}"
        method = "POST"
        body = "canary-body {key}"
    "#;
    let shown = load(file).unwrap().to_string();
    assert!(!shown.contains("canary"), "{shown}");
    for visible in ["x.example", "api.example", "\"backup\""] {
        assert!(shown.contains(visible), "{visible} is missing in {shown}");
    }
}

#[test]
fn secrets_are_in_no_print_and_no_error() {
    let file = r#"
        token = "canary-token"
        database_url = "postgres://ann:canary-password@db/syncline"
        [[jobs]]
        name = "a"
        cron = "* * * * *"
        run = { http = { url = "https://x.example/?key=canary-query", headers = { authorization = "canary-header" } } }
    "#;
    let config = load(file).unwrap();
    for shown in [config.to_string(), format!("{config:?}")] {
        assert!(!shown.contains("canary"), "{shown}");
    }
    assert_eq!(config.secrets().len(), 4);
    for (name, value) in [("SYNCLINE_TOKEN", "canary with spaces"), ("DATABASE_URL", "mysql://ann:canary@db")]
    {
        let error = load_with("", Flags::default(), &[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("canary"), "{error}");
    }
}

#[test]
fn the_printed_configuration_loads_again_as_the_same() {
    let file = r#"
        listen = "[::1]:4000"
        allowed_hosts = ["sync.example:8443"]
        public_base_url = "https://sync.example"
        [viewer]
        allowed_origins = ["HTTPS://Shop.Example:443"]
        [[jobs]]
        name = "say"
        cron = "*/10 * * * * *"
        run = { command = ["echo", "a \"quoted\" word"] }
    "#;
    let printed = load(file).unwrap().to_string();
    assert!(printed.contains("allowed_origins = [\"https://shop.example\"]"), "{printed}");
    let again = load(&printed).unwrap().to_string();
    let settings = |text: &str| {
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(settings(&printed), settings(&again));
    assert!(load("jobs = []").unwrap().to_string().contains("jobs = []"));
}

#[test]
fn a_named_file_must_exist() {
    let flags = Flags { config: Some("/nonexistent/syncline.toml".into()), ..Flags::default() };
    let error = Config::load(&flags, &|_| None, parts()).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
}

#[test]
fn qu_23_a_queue_is_declared_by_an_address_and_a_pace() {
    let file = "[[queues]]\nname = \"geocode\"\nurl = \"https://api.example/{key}?k=canary\"\ninterval_ms = 250\n\
         max_attempts = 3\nsuccess = [\"2xx\", \"404\"]\nheaders = { authorization = \"canary\" }\n\
         [[queues]]\nname = \"post\"\nurl = \"http://api.example/\"\nbody = '{\"q\":\"{key}\"}'\n\
         [[queues]]\nname = \"mixing\"\ninterval_ms = 1000\n";
    let queues = probe(file, crate::queue::config::read);
    let [geocode, post, mixing] = queues.as_slice() else { panic!("{queues:?}") };
    let Doer::Api(api) = &geocode.doer else { panic!("{geocode:?}") };
    assert_eq!((geocode.settings.interval.as_millis(), geocode.settings.concurrency), (250, 1));
    assert_eq!((geocode.settings.retry.max_attempts, &api.method), (3, &http::Method::GET));
    assert!(api.success.iter().any(|statuses| statuses.contains(404)));
    let Doer::Api(api) = &post.doer else { panic!("{post:?}") };
    assert_eq!((&api.method, api.headers[0].1.expose()), (&http::Method::POST, "application/json"));
    assert!(matches!(mixing.doer, Doer::Part));
    assert_eq!((mixing.settings.interval.as_millis(), mixing.settings.retry_delay.as_millis()), (1000, 500));

    let config = load(file).unwrap();
    assert!(!format!("{config:?}{config}").contains("canary"), "{config}");
    assert!(config.secrets().contains(&"canary".to_owned()));
    load(&config.to_string().replace("[redacted]", "x")).unwrap();
}

#[test]
fn qu_23_what_is_wrong_with_a_queue_is_said() {
    let of = |lines: &str| problems(&format!("[[queues]]\n{lines}"));
    for (lines, problem) in [
        ("name = \"a b\"\nurl = \"http://x/{key}\"", "2:8: queues[0].name: expected 1 to 64 of a-z"),
        ("name = \"a\"", "1:1: queues[0].url: missing, expected an address with {key}"),
        ("name = \"a\"\nurl = \"http://x/\"", "3:7: queues[0].url: the key has no place"),
        ("name = \"a\"\nurl = \"http://{key}/\"", "3:7: queues[0].url: {key} must stand behind the host"),
        (
            "name = \"a\"\nurl = \"http://x/{key}\"\nconcurrency = 0",
            "4:15: queues[0].concurrency: expected a whole",
        ),
        (
            "name = \"a\"\nurl = \"http://x/{key}\"\nsuccess = [\"ok\"]",
            "4:12: queues[0].success[0]: expected a status",
        ),
        (
            "name = \"a\"\nurl = \"http://x/{key}\"\nintervall_ms = 5",
            "4:1: queues[0].intervall_ms: unknown key; did you mean `interval_ms`?",
        ),
        (
            "name = \"mixing\"\nurl = \"http://x/{key}\"",
            "3:7: queues[0].url: this queue is brought by a part",
        ),
    ] {
        let found = of(lines);
        assert!(found.len() == 1 && found[0].starts_with(problem), "{lines}: {found:?}");
    }
    let twice = problems(&"[[queues]]\nname = \"a\"\nurl = \"http://x/{key}\"\n".repeat(2));
    assert_eq!(twice, ["5:8: queues[1].name: another queue is already called \"a\""]);
}

#[test]
fn ss_06_kinds_of_entities_are_declared_and_mistakes_are_named() {
    let kinds = |file: &str| {
        let kinds = probe(file, crate::inbox::config::read);
        kinds.iter().map(|kind| (kind.entity_type.to_string(), kind.editable)).collect::<Vec<_>>()
    };
    assert_eq!(kinds(""), [("brush".to_owned(), true)]);
    let more = kinds("[[entities]]\nname = \"easel\"\n[[entities]]\nname = \"brush\"\nsettings = false\n");
    assert_eq!(more, [("easel".to_owned(), false), ("brush".to_owned(), false)]);
    for (name, why) in [
        ("Voice-Mail", "must begin with a small letter"),
        ("sketch_file", "stands for files"),
        ("a; DROP TABLE kv", "must begin with a small letter"),
    ] {
        let found = problems(&format!("[[entities]]\nname = {name:?}\n"));
        assert!(found.len() == 1 && found[0].contains(why), "{found:?}");
    }
    let twice = problems("[[entities]]\nname = \"a\"\n[[entities]]\nname = \"a\"\n");
    assert!(twice[0].contains("declared twice"), "{twice:?}");
}
