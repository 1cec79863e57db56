//! The lines of those who wait, one for each name, in order of arrival.
//!
//! A line is a fair mutex: whoever has it is the first. A place that is dropped, at whatever moment, leaves the line, and
//! the last one to leave takes the line along.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use syncline_core::lock::Name;
use tokio::sync::{Mutex as Line, MutexGuard};

use super::WAITING_MAX;

#[derive(Debug, Default)]
pub(super) struct Lines {
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    by_name: HashMap<Name, (Arc<Line<()>>, usize)>,
    places: usize,
}

/// A place in the line for one name.
#[derive(Debug)]
pub(super) struct Place {
    name: Name,
    line: Arc<Line<()>>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Lines {
    /// Whether anybody waits for `name`.
    pub(super) fn has(&self, name: &Name) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.places > 0 && waiting.by_name.contains_key(name)
    }

    /// The last place in the line for `name`; `None` when too many wait already.
    pub(super) fn join(&self, name: &Name) -> Option<Place> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.places >= WAITING_MAX {
            return None;
        }
        waiting.places += 1;
        let (line, places) = waiting.by_name.entry(name.clone()).or_default();
        *places += 1;
        Some(Place { name: name.clone(), line: Arc::clone(line), waiting: Arc::clone(&self.waiting) })
    }
}

impl Place {
    /// Ends when this is the first place, which it stays until what is returned is dropped.
    pub(super) async fn first(&self) -> MutexGuard<'_, ()> {
        self.line.lock().await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.places -= 1;
        if let Some((_, places)) = waiting.by_name.get_mut(&self.name) {
            *places -= 1;
            if *places == 0 {
                waiting.by_name.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lk_21_places_are_first_in_order_and_leave_nothing_behind() {
        let (lines, name) = (Lines::default(), Name::new("project").unwrap());
        assert!(!lines.has(&name));
        let [one, two, three] = [0; 3].map(|_| lines.join(&name).unwrap());
        let first = one.first().await;
        let mut second = Box::pin(two.first());
        assert!(futures::poll!(&mut second).is_pending());
        let mut third = Box::pin(three.first());
        assert!(futures::poll!(&mut third).is_pending());
        // The second goes away while it waits, and the third moves up.
        drop(second);
        drop(two);
        drop(first);
        drop(one);
        assert!(futures::poll!(&mut third).is_ready());
        assert!(lines.has(&name));
        drop(third);
        drop(three);
        assert!(!lines.has(&name) && lines.waiting.lock().unwrap().by_name.is_empty());
    }

    #[tokio::test]
    async fn a_line_is_bounded() {
        let (lines, name) = (Lines::default(), Name::new("project").unwrap());
        let places: Vec<_> = (0..WAITING_MAX).map(|_| lines.join(&name).unwrap()).collect();
        assert!(lines.join(&Name::new("other").unwrap()).is_none());
        drop(places);
        assert!(lines.join(&name).is_some());
    }
}
