//! A throwaway PostgreSQL cluster that fails over by itself: three servers under Patroni, with an etcd beside them.
//!
//! Replication is synchronous and strict: a commit that was acknowledged is on two servers. A member is a machine of its own,
//! with an address in a network namespace of its own, so that it can be killed, frozen, cut off and switched over.
//!
//! Guarantees: no process, folder or namespace is left behind when the [`Patroni`] is dropped, or when the process that started
//! it is killed: a small shell waits on a pipe that only we hold, and cleans up when it closes.
//!
//! Leaves to others: the databases' contents, and installing the programs (the error names the packages). It takes root.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::postgres::{Error, Programs, ROLE, finish, io, psql};

/// The names of the members.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Every member has a machine of its own, so all use the same ports.
const SERVER_PORT: u16 = 5432;
const API_PORT: u16 = 8008;
const ETCD_PORT: u16 = 2379;
const ETCD_PEER_PORT: u16 = 2380;
/// How long a start, a failover or a return may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Ends every process that works in the folder, and takes the network and the folder away.
const CLEAN_UP: &str = r#"cat >/dev/null
for process in /proc/[0-9]*; do
    case "$(readlink "$process/cwd")" in "$1"*) kill -KILL "${process#/proc/}";; esac
done
ip link delete "$2"; shift 2
rm -rf "$0"; for name in "$@"; do ip netns delete "$name"; done"#;
/// Sends a signal to every process that works in a folder.
const SIGNAL: &str = r#"for process in /proc/[0-9]*; do
    case "$(readlink "$process/cwd")" in "$2"/*|"$2") kill "-$1" "${process#/proc/}";; esac
done; true"#;

/// A cluster of three.
#[derive(Debug)]
pub struct Patroni {
    programs: Programs,
    folder: PathBuf,
    network: Network,
    /// Cleans up when its standard input closes.
    guard: Child,
    /// Ours to wait for; whoever dies stays a zombie until then.
    children: Vec<Child>,
}

/// A member, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member(usize);

impl Patroni {
    /// Starts three servers; returns when one takes writes and another confirms them.
    ///
    /// [`Error::NotRoot`] for anybody else: networks of one's own are root's.
    pub fn start() -> Result<Self, Error> {
        let programs = Programs::find()?;
        // Only root finds another user to run servers as, and only root may make a network.
        if programs.user.is_none() {
            return Err(Error::NotRoot);
        }
        for (program, package) in
            [("patroni", "patroni"), ("etcd", "etcd-server"), ("ip", "iproute2"), ("setpriv", "util-linux")]
        {
            if !on_path(program) {
                return Err(Error::Missing { program, package });
            }
        }
        let folder = programs.own_folder()?;
        let network = Network::new();
        let guard = guard(&folder, &network)?;
        let mut cluster = Self { programs, folder, network, guard, children: Vec::new() };
        cluster.network.create()?;
        cluster.start_etcd()?;
        for member in cluster.members() {
            cluster.configure(member)?;
            cluster.start_member(member)?;
            // The first makes the database, the others copy it.
            if member == Member(0) {
                cluster.wait_for("a first primary", |cluster| cluster.primary().is_some())?;
            }
        }
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = Member> + use<> {
        (0..NAMES.len()).map(Member)
    }

    /// The address of a database, with all servers in it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let hosts: Vec<String> =
            self.members().map(|member| self.network.address(member).to_string()).collect();
        format!("postgres://{ROLE}@{}/{database}", hosts.join(","))
    }

    /// The member that takes writes, as it says itself.
    #[must_use]
    pub fn primary(&self) -> Option<Member> {
        self.members()
            .find(|&member| self.ask(member, "GET", "/primary", "").is_some_and(|(code, _)| code == 200))
    }

    /// Waits until all three are members, one takes writes and another confirms them. A member that still has the past of a former
    /// primary is none: it may have to be made anew.
    pub fn wait_until_whole(&self) -> Result<(), Error> {
        self.wait_for("three members", |cluster| {
            let Some((_, said)) =
                cluster.primary().and_then(|primary| cluster.ask(primary, "GET", "/cluster", ""))
            else {
                return false;
            };
            let up = said.matches(r#""state": "running""#).count()
                + said.matches(r#""state": "streaming""#).count();
            let timelines: Vec<&str> = said.split(r#""timeline": "#).skip(1).map(number_at).collect();
            let alike =
                timelines.len() == NAMES.len() && timelines.iter().all(|timeline| *timeline == timelines[0]);
            up == NAMES.len() && alike && said.contains("sync_standby")
        })
    }

    /// Kills everything on a machine at once.
    pub fn kill(&mut self, member: Member) -> Result<(), Error> {
        self.signal(member, "KILL")?;
        // The dead are waited for, so that nothing of them is found when the member is started again.
        self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        Ok(())
    }

    /// Starts a machine that was killed.
    pub fn start_member(&mut self, member: Member) -> Result<(), Error> {
        let (folder, configuration) = (self.member_folder(member), self.configuration(member));
        let mut command = self.network.inside(member, &self.programs);
        command.arg("patroni").arg(configuration).current_dir(&folder);
        // Where Debian's own programs would look for a cluster of Debian's.
        command.env("LC_ALL", "C").env("PATRONI_LOG_LEVEL", "WARNING");
        self.spawn("patroni", command, &folder.join("patroni.log"))
    }

    /// Stops every process of a machine in its steps: connections stay, and nobody answers.
    pub fn freeze(&self, member: Member) -> Result<(), Error> {
        self.signal(member, "STOP")
    }

    /// Lets a frozen machine go on.
    pub fn thaw(&self, member: Member) -> Result<(), Error> {
        self.signal(member, "CONT")
    }

    /// Takes a machine's cable out: packets to and from it are lost without a word.
    pub fn cut_off(&self, member: Member) -> Result<(), Error> {
        self.network.link(member, "down")
    }

    /// Puts the cable back.
    pub fn reconnect(&self, member: Member) -> Result<(), Error> {
        self.network.link(member, "up")
    }

    /// Asks Patroni to make another member the primary, in good order.
    pub fn switch_over(&self, from: Member) -> Result<(), Error> {
        let body = format!(r#"{{"leader": "{}"}}"#, NAMES[from.0]);
        self.wait_for("a switch-over", |cluster| {
            cluster.ask(from, "POST", "/switchover", &body).is_some_and(|(code, _)| code == 200)
        })
    }

    /// Runs one SQL command on `database` at the primary, as superuser.
    pub fn execute(&self, database: &str, sql: &str) -> Result<(), Error> {
        let primary = self.primary().unwrap_or(Member(0));
        psql(&format!("postgres://{ROLE}@{}/{database}", self.network.address(primary)), sql)
    }

    fn start_etcd(&mut self) -> Result<(), Error> {
        let folder = self.own(&self.folder.join("etcd"))?;
        let address = |port: u16| format!("http://{}:{port}", self.network.gateway());
        let mut command = Command::new("etcd");
        self.programs.become_user(&mut command);
        command.arg("--data-dir").arg(folder.join("data")).current_dir(&folder);
        for flag in ["--listen-client-urls", "--advertise-client-urls"] {
            command.args([flag, &address(ETCD_PORT)]);
        }
        for flag in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
            command.args([flag, &address(ETCD_PEER_PORT)]);
        }
        command.args(["--initial-cluster", &format!("default={}", address(ETCD_PEER_PORT))]);
        // Patroni 3.0 renews its lease by the old interface only if it still has it. By the new one a server that stood still takes
        // the lease away from its successor when it goes on, and what was committed meanwhile is lost.
        command.arg("--enable-v2");
        // What it keeps is thrown away with the cluster.
        command.args(["--unsafe-no-fsync", "--logger", "zap", "--log-level", "error"]);
        self.spawn("etcd", command, &folder.join("log"))
    }

    fn configure(&self, member: Member) -> Result<(), Error> {
        let folder = self.own(&self.member_folder(member))?;
        let (address, gateway) = (self.network.address(member), self.network.gateway());
        let (name, programs, folder) = (NAMES[member.0], self.programs.folder.display(), folder.display());
        let text = format!(
            "scope: syncline
name: {name}
restapi: {{listen: '{address}:{API_PORT}', connect_address: '{address}:{API_PORT}'}}
etcd: {{host: '{gateway}:{ETCD_PORT}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    maximum_lag_on_failover: 1048576
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql: {{use_pg_rewind: true, use_slots: true}}
  initdb: [encoding: UTF8, locale: C, wal-segsize: '1']
postgresql:
  listen: '{address}:{SERVER_PORT}'
  connect_address: '{address}:{SERVER_PORT}'
  bin_dir: '{programs}'
  data_dir: '{folder}/data'
  pgpass: '{folder}/pgpass'
  authentication: {{superuser: {{username: {ROLE}}}, replication: {{username: replicator}}}}
  basebackup: [checkpoint: fast]
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  parameters: {{unix_socket_directories: '{folder}', shared_buffers: 16MB, max_connections: 100, wal_keep_size: 256MB, wal_retrieve_retry_interval: 500ms}}
  pg_hba: ['local all all trust', 'host all all 0.0.0.0/0 trust', 'host replication all 0.0.0.0/0 trust']
"
        );
        fs::write(self.configuration(member), text).map_err(io("write Patroni's configuration"))
    }

    fn spawn(&mut self, program: &'static str, mut command: Command, log: &Path) -> Result<(), Error> {
        let log = fs::File::create(log).map_err(io("create a log"))?;
        let errors = log.try_clone().map_err(io("open a log"))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        let missing = |source| Error::Io { what: program, source };
        self.children.push(command.spawn().map_err(missing)?);
        Ok(())
    }

    fn signal(&self, member: Member, signal: &'static str) -> Result<(), Error> {
        let mut command = Command::new("sh");
        command.args(["-c", SIGNAL, "signal", signal]).arg(self.member_folder(member));
        finish("kill", command)
    }

    fn wait_for(&self, what: &'static str, is_so: impl Fn(&Self) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            if Instant::now() >= deadline {
                let logs = self.members().map(|member| {
                    fs::read_to_string(self.member_folder(member).join("patroni.log")).unwrap_or_default()
                });
                return Err(Error::NotReady {
                    log: format!("{what}: {}", logs.collect::<Vec<_>>().join("\n")),
                });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// What each member says of the cluster, for people.
    pub fn describe(&self) -> String {
        let say = |(place, name): (usize, &&str)| {
            let said = self.ask(Member(place), "GET", "/cluster", "");
            let said = said.map_or("does not answer".to_owned(), |(_, said)| {
                said.lines().last().unwrap_or_default().to_owned()
            });
            format!("{name}: {said}")
        };
        NAMES.iter().enumerate().map(say).collect::<Vec<_>>().join("\n")
    }

    /// Asks a member's Patroni; `None` if it does not answer.
    fn ask(&self, member: Member, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let address = SocketAddr::from((self.network.address(member), API_PORT));
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX).ok()?;
        // A switch-over is answered when it is done.
        stream.set_read_timeout(Some(if method == "GET" { ANSWER_MAX } else { PATIENCE / 2 })).ok()?;
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let code = answer.split(' ').nth(1)?.parse().ok()?;
        Some((code, answer))
    }

    fn member_folder(&self, member: Member) -> PathBuf {
        self.folder.join(NAMES[member.0])
    }

    fn configuration(&self, member: Member) -> PathBuf {
        self.member_folder(member).join("patroni.yml")
    }

    /// A folder that the servers' user owns.
    fn own(&self, folder: &Path) -> Result<PathBuf, Error> {
        fs::create_dir(folder).map_err(io("create a folder"))?;
        if let Some(user) = self.programs.user {
            chown(folder, Some(user.uid), Some(user.gid)).map_err(io("hand over a folder"))?;
        }
        Ok(folder.to_owned())
    }
}

impl Drop for Patroni {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // Nothing can be done about a failure here, and the guard has said what it could to nobody.
        let _ = self.guard.wait();
        for mut child in self.children.drain(..) {
            let _ = child.wait();
        }
    }
}

/// A bridge of our own, and a namespace with a cable to it for every member.
#[derive(Debug)]
struct Network {
    /// Tells ours from those of other tests: it is in every name and address.
    number: u8,
}

impl Network {
    fn new() -> Self {
        Self { number: rand::random_range(1..=254) }
    }

    fn bridge(&self) -> String {
        format!("syncline{}", self.number)
    }

    fn namespace(&self, member: Member) -> String {
        format!("syncline{}-{}", self.number, NAMES[member.0])
    }

    fn cable(&self, member: Member) -> String {
        format!("sync{}{}", self.number, NAMES[member.0])
    }

    fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number, 1)
    }

    fn address(&self, member: Member) -> Ipv4Addr {
        let last = u8::try_from(member.0).expect("three members");
        Ipv4Addr::new(10, 213, self.number, 11 + last)
    }

    fn create(&self) -> Result<(), Error> {
        let (bridge, gateway) = (self.bridge(), self.gateway());
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("address add {gateway}/24 dev {bridge}"))?;
        ip(&format!("link set {bridge} up"))?;
        for member in (0..NAMES.len()).map(Member) {
            let (namespace, cable, address) =
                (self.namespace(member), self.cable(member), self.address(member));
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add {cable} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("link set {cable} master {bridge} up"))?;
            ip(&format!("-n {namespace} address add {address}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(())
    }

    fn link(&self, member: Member, state: &str) -> Result<(), Error> {
        ip(&format!("link set {} {state}", self.cable(member)))
    }

    /// A command that runs on a member's machine, as the user that servers run as.
    fn inside(&self, member: Member, programs: &Programs) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(member)]);
        if let Some(user) = programs.user {
            let (uid, gid) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
            command.args(["setpriv", &uid, &gid, "--clear-groups"]);
        }
        command
    }
}

fn ip(arguments: &str) -> Result<(), Error> {
    let mut command = Command::new("ip");
    command.args(arguments.split(' '));
    finish("ip", command)
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

fn guard(folder: &Path, network: &Network) -> Result<Child, Error> {
    let mut command = Command::new("sh");
    // `$0` is the folder once more: the last thing to go.
    command.arg("-c").arg(CLEAN_UP).arg(folder).arg(folder).arg(network.bridge());
    command.args((0..NAMES.len()).map(|place| network.namespace(Member(place))));
    // Its own process group: an interrupt meant for the test must not end the one who cleans up after it.
    command.process_group(0).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(io("start the guard"))
}

/// The digits that `text` begins with.
fn number_at(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it does when its members are killed, frozen and cut off is shown by the tests of the store.
    #[test]
    fn op_02_on_postgres_a_cluster_has_a_primary_and_leaves_nothing_behind() {
        let cluster = match Patroni::start() {
            Err(Error::NotRoot) => return println!("not tested: only root may make networks"),
            started => started.unwrap(),
        };
        let (folder, bridge) = (cluster.folder.clone(), cluster.network.bridge());
        cluster.execute("postgres", "CREATE TABLE kept (n integer)").unwrap();
        drop(cluster);
        assert!(!folder.exists(), "{}", folder.display());
        assert!(ip(&format!("link show {bridge}")).is_err(), "{bridge} is still there");
    }
}
