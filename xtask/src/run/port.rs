//! Whether a port is free, and who has it.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, Result};

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Who already listens at `address`, or `None` where it is free.
pub(super) fn taken(address: SocketAddr) -> Result<Option<String>> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            Ok(Some(owner(address.port()).unwrap_or_else(|| "another program".to_owned())))
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on {address}")),
    }
}

/// The program and process id behind a listening port, as far as Linux lets us see it.
fn owner(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inode = tables.iter().find_map(|table| listening_inode(&fs::read_to_string(table).ok()?, port))?;
    let wanted = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        // `self` and its like are listed as well, and name nobody.
        let Ok(id) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        // Processes of other users keep their files to themselves.
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let holds = |path| fs::read_link(path).is_ok_and(|link| link.as_os_str() == wanted.as_str());
        if files.flatten().any(|file| holds(file.path())) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (process {id})", name.trim()));
        }
    }
    None
}

fn listening_inode(table: &str, port: u16) -> Option<u64> {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields.get(1)?.ends_with(&suffix) && *fields.get(3)? == LISTEN;
        listens.then(|| fields.get(9)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listening_socket_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:0BB8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1111 1 0 20 4 30 10 -1\n\
            1: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2222 1 0 100 0 0 10 0\n";
        assert_eq!(listening_inode(table, 3000), Some(2222));
        assert_eq!(listening_inode(table, 3001), None);
    }

    #[test]
    fn a_taken_port_names_its_owner_and_a_free_one_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let owner = taken(address).unwrap().unwrap();
        assert!(owner.contains(&format!("(process {})", std::process::id())), "{owner}");
        assert_eq!(taken("127.0.0.1:0".parse().unwrap()).unwrap(), None);
    }
}
