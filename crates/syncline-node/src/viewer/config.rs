//! `[viewer]`: who may count as a viewer, and how many.

use std::fmt;

use crate::config::{Section, checked, origin, setting};

/// Who may count as a viewer, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Origins of other sites whose pages may send heartbeats, as `https://site.example`.
    pub allowed_origins: Vec<String>,
    /// Live sessions this node holds at most.
    pub max_sessions: usize,
    /// Sessions never seen before that one address may open each minute, and at once.
    pub new_sessions_per_minute: u32,
    /// Rooms with somebody in them that this node holds at most.
    pub max_rooms: usize,
    /// Of these, opened from one address.
    pub rooms_per_address: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            allowed_origins: Vec::new(),
            max_sessions: 1_000_000,
            new_sessions_per_minute: 10_000,
            max_rooms: 100_000,
            rooms_per_address: 10_000,
        }
    }
}

impl Settings {
    pub(crate) fn read(section: &Section<'_>) -> Settings {
        let default = Settings::default();
        let origins = section.texts("allowed_origins").unwrap_or_default();
        let per_minute = section.integer("new_sessions_per_minute", 1..=100_000_000);
        let viewer = Settings {
            allowed_origins: checked(section, &origins, origin),
            max_sessions: section
                .integer("max_sessions", 1..=50_000_000)
                .map_or(default.max_sessions, |n| n as usize),
            new_sessions_per_minute: per_minute.map_or(default.new_sessions_per_minute, |n| n as u32),
            max_rooms: section.integer("max_rooms", 0..=1_000_000).map_or(default.max_rooms, |n| n as usize),
            rooms_per_address: section
                .integer("rooms_per_address", 1..=1_000_000)
                .map_or(default.rooms_per_address, |n| n as usize),
        };
        section.finish();
        viewer
    }

    pub(crate) fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[viewer]")?;
        setting(f, "allowed_origins", self.allowed_origins.clone())?;
        setting(f, "max_sessions", self.max_sessions as i64)?;
        setting(f, "new_sessions_per_minute", i64::from(self.new_sessions_per_minute))?;
        setting(f, "max_rooms", self.max_rooms as i64)?;
        setting(f, "rooms_per_address", self.rooms_per_address as i64)
    }
}
