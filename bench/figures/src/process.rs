//! What other processes use, as Linux tells it in `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Processor time of a process and all its descendants, user and system together.
pub fn cpu(process: u32) -> Result<Duration> {
    let mut total = ticks(&process.to_string(), 13..15)?;
    for child in children(process) {
        total += cpu(child)?;
    }
    Ok(total)
}

/// Processor time of our own children that have ended.
pub fn cpu_of_ended_children() -> Result<Duration> {
    ticks("self", 15..17)
}

/// Memory of a process that is in RAM now, and the most there ever was, in bytes.
pub fn memory_bytes(process: u32) -> Result<(u64, u64)> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib * 1_024).with_context(|| format!("{path} has no {name}"))
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// What is worth knowing of the machine, for whoever compares figures later.
pub fn machine() -> Value {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    json!({ "cores": cores, "kernel": kernel.trim(), "processor": model.map(|(_, name)| name) })
}

/// The machine's load over the last minute: on a quiet machine, little more than what the bench itself makes.
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

fn children(process: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// The sum of fields of `/proc/<process>/stat`, counted from zero as in its manual page minus one.
fn ticks(process: &str, fields: std::ops::Range<usize>) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The second field is the program's name in brackets, and may hold anything.
    let (_, rest) = stat.rsplit_once(") ").with_context(|| format!("{path} is not what it used to be"))?;
    let numbers = rest.split(' ').skip(fields.start - 2).take(fields.len());
    let ticks: u64 = numbers.filter_map(|number| number.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn processor_time_is_counted_for_the_living_and_the_ended() {
        let own = std::process::id();
        let (before, ended_before) = (cpu(own).unwrap(), cpu_of_ended_children().unwrap());
        let busy =
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]).status();
        assert!(busy.unwrap().success());
        assert!(cpu_of_ended_children().unwrap() > ended_before);
        let mut sum = 0_u64;
        while cpu(own).unwrap() < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }

    #[test]
    fn memory_now_is_no_more_than_memory_ever() {
        let (now, most) = memory_bytes(std::process::id()).unwrap();
        assert!(now > 100_000 && now <= most, "{now} {most}");
        assert!(memory_bytes(u32::MAX).is_err());
    }
}
