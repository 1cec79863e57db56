//! Layers, files with mistakes, and what is printed.

use std::io::Write;

use super::*;
use syncline_core::schedule::Gate;

fn load(file: &str) -> Result<Config, Error> {
    load_with(file, Flags::default(), &[])
}

fn load_with(file: &str, flags: Flags, environment: &[(&str, &str)]) -> Result<Config, Error> {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(file.as_bytes()).unwrap();
    let flags = Flags { config: Some(written.path().to_owned()), ..flags };
    let environment: Vec<(String, String)> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::load(&flags, &move |name| {
        environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    })
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
fn without_a_word_a_node_is_local_and_has_the_picture_job() {
    let config = Config::load(&Flags::default(), &|_| None).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:3000");
    assert_eq!(config.database_url.expose(), "sqlite:./data/syncline.db");
    assert!(config.token.is_none());
    let [job] = config.jobs.as_slice() else { panic!("one job expected: {:?}", config.jobs) };
    assert_eq!((job.name.as_str(), job.cron.as_str(), job.cost.as_usd()), ("picture", "* * * * *", 0.002));
    assert!(matches!((job.gate, &job.run, job.on_arrival), (Gate::Viewers, Run::Picture, false)));
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
        ("[[jobs]]\ncron = \"* * * * *\"\nrun = \"picture\"", "1:1: jobs[0].name: missing, expected a name"),
        (
            "[[jobs]]\nname = \"a\"\nrun = \"picture\"",
            "1:1: jobs[0].cron: missing, expected a cron expression",
        ),
        (
            "[[jobs]]\nname = \"A b\"\ncron = \"* * * * *\"\nrun = \"picture\"",
            "2:8: jobs[0].name: expected 1 to 64 of",
        ),
        (
            "[[jobs]]\nname = \"a\"\ncron = \"* * *\"\nrun = \"picture\"",
            "3:8: jobs[0].cron: expected a cron expression",
        ),
        (
            "jobs = [{ name = \"a\", cron = \"* * * * *\", run = \"pictur\" }]",
            "1:49: jobs[0].run: expected one of picture",
        ),
        (
            "[[jobs]]\nname = \"a\"\ncron = \"* * * * *\"\ngate = \"viewer\"\nrun = \"picture\"",
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
            "4:7: jobs[0].run: expected \"picture\"",
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
    let job = "[[jobs]]\nname = \"twice\"\ncron = \"* * * * *\"\nrun = \"picture\"\n";
    let found = problems(&format!("dta = \"x\"\n{job}{job}\n[viewer]\ntrust_forwarded_for = 1\n"));
    for expected in
        ["dta: unknown key", "jobs[1].name: another job", "viewer.trust_forwarded_for: expected true"]
    {
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected} in {found:?}");
    }
}

#[test]
fn jobs_can_be_calls_commands_or_absent() {
    assert!(load("jobs = []").unwrap().jobs.is_empty());
    let config = load(
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
    )
    .unwrap();
    let [report, tidy] = config.jobs.as_slice() else { panic!("two jobs expected") };
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
    assert_eq!(load(&load("jobs = []").unwrap().to_string()).unwrap().jobs.len(), 0);
}

#[test]
fn a_named_file_must_exist() {
    let flags = Flags { config: Some("/nonexistent/syncline.toml".into()), ..Flags::default() };
    let error = Config::load(&flags, &|_| None).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
}

#[test]
fn qu_23_a_queue_is_declared_by_an_address_and_a_pace() {
    let config = load(
        "[[queues]]\nname = \"geocode\"\nurl = \"https://api.example/{key}?k=canary\"\ninterval_ms = 250\n\
         max_attempts = 3\nsuccess = [\"2xx\", \"404\"]\nheaders = { authorization = \"canary\" }\n\
         [[queues]]\nname = \"post\"\nurl = \"http://api.example/\"\nbody = '{\"q\":\"{key}\"}'\n\
         [[queues]]\nname = \"fetchRakutenSearch\"\ninterval_ms = 1000\n",
    )
    .unwrap();
    let [geocode, post, rakuten] = config.queues.as_slice() else { panic!("{:?}", config.queues) };
    let api = geocode.api.as_ref().unwrap();
    assert_eq!((geocode.settings.interval.as_millis(), geocode.settings.concurrency), (250, 1));
    assert_eq!((geocode.settings.retry.max_attempts, &api.method), (3, &http::Method::GET));
    assert!(api.success.iter().any(|statuses| statuses.contains(404)));
    let api = post.api.as_ref().unwrap();
    assert_eq!((&api.method, api.headers[0].1.expose()), (&http::Method::POST, "application/json"));
    assert!(rakuten.api.is_none());
    assert_eq!(
        (rakuten.settings.interval.as_millis(), rakuten.settings.retry_delay.as_millis()),
        (1000, 500)
    );

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
            "name = \"scanner\"\nurl = \"http://x/{key}\"",
            "3:7: queues[0].url: this is one of the bookshelf's own",
        ),
    ] {
        let found = of(lines);
        assert!(found.len() == 1 && found[0].starts_with(problem), "{lines}: {found:?}");
    }
    let twice = problems(&"[[queues]]\nname = \"a\"\nurl = \"http://x/{key}\"\n".repeat(2));
    assert_eq!(twice, ["5:8: queues[1].name: another queue is already called \"a\""]);
}

#[test]
fn bk_04_the_book_apis_are_where_file_and_environment_say() {
    let usual = load("").unwrap().shelf;
    assert!(usual.enabled && !usual.asks_rakuten());
    assert_eq!(
        usual.cover_origins(),
        [
            "http://books.google.com",
            "https://books.google.com",
            "https://ndlsearch.ndl.go.jp",
            "https://thumbnail.image.rakuten.co.jp"
        ]
    );
    let file = "[shelf]\nndl_base_url = \"http://127.0.0.1:1/ndl\"\nrakuten_application_id = \"canary\"\n";
    let environment =
        [("RAKUTEN_BASE_URL", "http://127.0.0.1:2"), ("GOOGLE_BOOKS_BASE_URL", "http://127.0.0.1:3/books")];
    let config = load_with(file, Flags::default(), &environment).unwrap();
    assert_eq!(config.shelf.ndl.to_string(), "http://127.0.0.1:1/ndl");
    assert_eq!(config.shelf.ndl_thumbnail.to_string(), "http://127.0.0.1:1/thumbnail");
    assert_eq!(
        config.shelf.cover_origins(),
        ["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"]
    );
    assert!(config.shelf.asks_rakuten());
    assert!(!format!("{config:?}{config}").contains("canary"));
    assert!(config.secrets().contains(&"canary".to_owned()));

    let wrong = load_with("", Flags::default(), &[("NDL_BASE_URL", "ndl")]).unwrap_err().to_string();
    assert_eq!(wrong, "environment NDL_BASE_URL: shelf.ndl_base_url: base URL is not an absolute URL");
    let off = load("[shelf]\nenabled = false").unwrap().shelf;
    assert!(!off.enabled && off.cover_origins().is_empty());
}

#[test]
fn ss_06_kinds_of_entities_are_declared_and_mistakes_are_named() {
    let kinds = |file: &str| {
        let config = load(file).unwrap();
        config.entities.iter().map(|kind| (kind.entity_type.to_string(), kind.settings)).collect::<Vec<_>>()
    };
    let usual = kinds("");
    assert_eq!(usual.len(), 7);
    assert!(
        usual.contains(&("call_log".to_owned(), false)) && usual.contains(&("schedule".to_owned(), true))
    );
    let more =
        kinds("[[entities]]\nname = \"voicemail\"\n[[entities]]\nname = \"schedule\"\nsettings = false\n");
    assert_eq!(more.len(), 8);
    assert!(
        more.contains(&("voicemail".to_owned(), false)) && more.contains(&("schedule".to_owned(), false))
    );
    for (name, why) in [
        ("Voice-Mail", "must begin with a small letter"),
        ("recording_file", "stands for files"),
        ("a; DROP TABLE kv", "must begin with a small letter"),
    ] {
        let found = problems(&format!("[[entities]]\nname = {name:?}\n"));
        assert!(found.len() == 1 && found[0].contains(why), "{found:?}");
    }
    let twice = problems("[[entities]]\nname = \"a\"\n[[entities]]\nname = \"a\"\n");
    assert!(twice[0].contains("declared twice"), "{twice:?}");
}

#[test]
fn ss_26_recordings_are_in_a_folder_unless_a_bucket_is_named_with_its_keys() {
    let usual = load("data = \"/srv\"").unwrap().recordings;
    assert_eq!((usual.dir.to_str(), usual.s3.is_none()), (Some("/srv/recordings"), true));
    let environment = [
        ("RECORDINGS_DIR", "/calls"),
        ("RECORDINGS_S3_BUCKET", "calls"),
        ("RECORDINGS_S3_ENDPOINT", "http://127.0.0.1:9000"),
        ("AWS_ACCESS_KEY_ID", "key-canary"),
        ("AWS_SECRET_ACCESS_KEY", "secret-canary"),
    ];
    let config = load_with("", Flags::default(), &environment).unwrap();
    let s3 = config.recordings.s3.as_ref().unwrap();
    assert_eq!((s3.bucket.as_str(), s3.region.as_str(), s3.path_style), ("calls", "us-east-1", true));
    assert_eq!(config.recordings.dir.to_str(), Some("/calls"));
    let shown = format!("{config}\n{config:?}");
    assert!(!shown.contains("canary"), "{shown}");
    assert!(config.secrets().contains(&"secret-canary".to_owned()));
    let amazon = load_with("", Flags::default(), &[environment[1], environment[3], environment[4]]).unwrap();
    let s3 = amazon.recordings.s3.unwrap();
    assert_eq!((s3.endpoint.as_str(), s3.path_style), ("https://s3.us-east-1.amazonaws.com/", false));
    for (file, why) in [
        ("[recordings.s3]\nbucket = \"calls\"\n", "AWS_ACCESS_KEY_ID"),
        ("[recordings.s3]\nbucket = \"Calls!\"\n", "the name of a bucket"),
        ("[recordings.s3]\nprefix = \"../up\"\n", "what keys begin with"),
        ("[recordings]\nmax_bytes = 0\n", "a whole number from 1"),
        ("[recordings]\nfolder = \"x\"\n", "unknown"),
    ] {
        let found = problems(file).join("\n");
        assert!(found.contains(why), "{file}: {found}");
    }
}
