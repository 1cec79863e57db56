//! A machine behind a router, both of them network namespaces: a server on it can be reached, and the router can forget connections.
//!
//! A router that forgets a connection, as a firewall or an address translation does after a while, drops its packets in both
//! directions and tells nobody. New connections pass.
//!
//! Guarantees: nothing is left behind when the [`Machine`] is dropped, or when the process that made it is killed: a small shell
//! waits on a pipe that only we hold, and cleans up when it closes. It takes root.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::postgres::{Error, finish, io};

const CLEAN_UP: &str =
    r#"cat >/dev/null; ip link delete "$1"; shift; for name in "$@"; do ip netns delete "$name"; done"#;

/// A machine of its own, and the router before it.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Tells ours from those of other tests: it is in every name and address.
    number: u8,
    /// Cleans up when its standard input closes.
    guard: Child,
}

impl Machine {
    pub(crate) fn new() -> Result<Self, Error> {
        let number = rand::random_range(1..=254);
        let [cable, router, machine] = names(number);
        let guard = {
            let mut command = Command::new("sh");
            command.args(["-c", CLEAN_UP, "guard", &cable, &router, &machine]);
            // Its own process group: an interrupt meant for the test must not end the one who cleans up after it.
            command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().map_err(io("start the guard"))?
        };
        let net = format!("10.214.{number}");
        for command in [
            format!("netns add {router}"),
            format!("netns add {machine}"),
            format!("link add {cable} type veth peer name eth0 netns {router}"),
            format!("-n {router} link add eth1 type veth peer name eth0 netns {machine}"),
            format!("address add {net}.1/30 dev {cable}"),
            format!("link set {cable} up"),
            format!("-n {router} address add {net}.2/30 dev eth0"),
            format!("-n {router} link set eth0 up"),
            format!("-n {router} address add {net}.5/30 dev eth1"),
            format!("-n {router} link set eth1 up"),
            format!("-n {machine} address add {net}.6/30 dev eth0"),
            format!("-n {machine} link set eth0 up"),
            format!("-n {machine} link set lo up"),
            format!("-n {machine} route add default via {net}.5"),
            format!("route add {net}.4/30 via {net}.2"),
            format!("netns exec {router} sysctl -qw net.ipv4.ip_forward=1"),
        ] {
            ip(&command)?;
        }
        Ok(Self { number, guard })
    }

    /// The machine's address.
    pub(crate) fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 214, self.number, 6)
    }

    /// What stands before a command that runs on the machine.
    pub(crate) fn prefix(&self) -> [String; 4] {
        let [_, _, machine] = names(self.number);
        ["ip".to_owned(), "netns".to_owned(), "exec".to_owned(), machine]
    }

    /// Lets the router forget the connections that come from these ports.
    pub(crate) fn forget(&self, ports: &[u16]) -> Result<(), Error> {
        let [_, router, _] = names(self.number);
        for port in ports {
            for side in ["sport", "dport"] {
                ip(&format!("-n {router} rule add ipproto tcp {side} {port} blackhole"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // Nothing can be done about a failure here.
        let _ = self.guard.wait();
    }
}

/// The cable to the router, the router, and the machine.
fn names(number: u8) -> [String; 3] {
    [format!("syncm{number}"), format!("syncline-router{number}"), format!("syncline-machine{number}")]
}

fn ip(arguments: &str) -> Result<(), Error> {
    let mut command = Command::new("ip");
    command.args(arguments.split(' '));
    finish("ip", command)
}
