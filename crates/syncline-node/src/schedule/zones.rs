//! Time zones, read from the machine's own files.
//!
//! The system keeps them up to date; a node reads a zone once, when it reads its configuration. What the rules mean is core's.

use std::fs;
use std::path::Path;

use syncline_core::schedule::{Zone, check_zone_name};

/// Where systems have them; `TZDIR` comes first.
const FOLDERS: [&str; 3] = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo"];

/// No zone's file is larger.
const FILE_MAX_BYTES: u64 = 256 * 1024;

/// The zone of this name, or what is wrong with it, as a sentence.
pub(super) fn read(name: &str) -> Result<Zone, String> {
    check_zone_name(name).map_err(|error| format!("{error}, found {name:?}"))?;
    if name == "UTC" {
        return Ok(Zone::utc());
    }
    let own = std::env::var("TZDIR").ok();
    let folders = own.as_deref().into_iter().chain(FOLDERS);
    let mut there = folders.map(Path::new).filter(|folder| folder.is_dir()).peekable();
    if there.peek().is_none() {
        return Err("this machine has no time zones: install the package tzdata".to_owned());
    }
    let file = there.map(|folder| folder.join(name)).find(|file| file.is_file());
    let file =
        file.ok_or_else(|| format!("expected a time zone such as \"Europe/Berlin\", found {name:?}"))?;
    let unreadable = |problem: String| format!("{} cannot be read: {problem}", file.display());
    let length = fs::metadata(&file).map_err(|error| unreadable(error.to_string()))?.len();
    if length > FILE_MAX_BYTES {
        return Err(unreadable(format!("it has {length} bytes")));
    }
    let data = fs::read(&file).map_err(|error| unreadable(error.to_string()))?;
    Zone::from_tzif(name, &data).map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vw_31_zones_of_the_machine_are_read_and_mistakes_are_named() {
        assert_eq!(read("UTC").unwrap().name(), "UTC");
        assert!(read("../../etc/passwd").unwrap_err().contains("Europe/Berlin"));
        if Path::new("/usr/share/zoneinfo/Europe/Berlin").is_file() {
            assert_eq!(read("Europe/Berlin").unwrap().name(), "Europe/Berlin");
            assert!(read("Europe/Atlantis").unwrap_err().contains("Atlantis"));
            assert!(read("tzdata.zi").is_err(), "a file that is no zone");
        }
    }
}
