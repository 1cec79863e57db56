//! What the operating system says of this process, under the names that every Prometheus client uses: `process_cpu_seconds_total`,
//! `process_resident_memory_bytes`, `process_open_fds` and so on. Where it says nothing (not Linux) the series are absent.

use std::fmt::Write as _;
use std::fs;

/// The series as text, behind those of the registry.
pub(super) fn render(out: &mut String) {
    let Some(stat) = Stat::read() else { return };
    let mut series = |name: &str, kind: &str, help: &str, value: f64| {
        let _ = write!(out, "\n# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    series("process_cpu_seconds_total", "counter", "Time on a processor, of user and system.", stat.cpu_sec);
    series("process_resident_memory_bytes", "gauge", "Memory that is in use.", stat.resident_bytes);
    series("process_virtual_memory_bytes", "gauge", "Memory that is addressed.", stat.virtual_bytes);
    series("process_threads", "gauge", "Threads.", stat.threads);
    if let Some(open) = fs::read_dir("/proc/self/fd").ok().map(Iterator::count) {
        // The folder itself was open while it was read.
        series(
            "process_open_fds",
            "gauge",
            "Files and sockets that are open.",
            open.saturating_sub(1) as f64,
        );
    }
    if let Some(most) = max_fds() {
        series("process_max_fds", "gauge", "Files and sockets that may be open.", most);
    }
}

struct Stat {
    cpu_sec: f64,
    threads: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Stat {
    fn read() -> Option<Stat> {
        Stat::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The fields of `/proc/self/stat` behind the program's name, which may have spaces and brackets in it.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The first of them is the third of the manual's list.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Some(Stat {
            cpu_sec: (field(14)? + field(15)?) / ticks,
            threads: field(20)?,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * rustix::param::page_size() as f64,
        })
    }
}

fn max_fds() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn cn_22_the_process_is_measured_under_the_usual_names() {
        let mut text = String::new();
        render(&mut text);
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_threads",
            "process_open_fds",
            "process_max_fds",
        ] {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
            let value: f64 =
                line.unwrap_or_else(|| panic!("{name}: {text}")).rsplit_once(' ').unwrap().1.parse().unwrap();
            assert!(value >= 0.0 && (value > 0.0 || name.contains("cpu")), "{name} {value}");
        }
    }

    #[test]
    fn a_program_whose_name_has_brackets_is_read_all_the_same() {
        let text = "7 (a) b (c)) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 9 0 100 4096 3 18446744073709551615";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.threads, stat.virtual_bytes), (9.0, 4096.0));
        assert!(stat.cpu_sec > 0.0 && stat.resident_bytes > 0.0);
    }
}
