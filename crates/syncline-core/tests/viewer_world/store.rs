//! The store that nodes share: reports with a time to live on its own wall clock, and claims that are unique.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use syncline_core::schedule::Bucket;
use syncline_core::viewer::{REPORT_TTL, Report};
use syncline_sim::{Context, Event};

use crate::trace::Trace;
use crate::{Bug, Note};

#[derive(Debug, Clone)]
pub(crate) enum Request {
    /// `written_ms` is the world's true time, for the judge alone.
    Put {
        node: String,
        report: Report,
        written_ms: u64,
    },
    List,
    Claim {
        bucket: Bucket,
        node: String,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Response {
    Stored,
    /// Each with the time it has left.
    Listed(Vec<(String, Report, Duration)>),
    Won,
    Taken,
}

pub(crate) struct Store {
    bug: Option<Bug>,
    trace: Rc<RefCell<Trace>>,
    /// Answers everything with an error.
    pub(crate) failing: bool,
    /// By node: when it expires, and the report.
    reports: BTreeMap<String, (u64, Report)>,
    claims: BTreeMap<Bucket, String>,
}

impl Store {
    pub(crate) fn new(bug: Option<Bug>, trace: Rc<RefCell<Trace>>) -> Self {
        Self { bug, trace, failing: false, reports: BTreeMap::new(), claims: BTreeMap::new() }
    }

    pub(crate) fn handle(&mut self, event: Event<Note>, context: &mut Context<'_, Note>) {
        let Event::Message { from, body: Note::Ask { op, request } } = event else { return };
        let response = if self.failing { None } else { Some(self.answer(context, request)) };
        context.send(from, Note::Reply { op, response });
    }

    fn answer(&mut self, context: &Context<'_, Note>, request: Request) -> Response {
        let wall_ms = context.wall_ms();
        match request {
            Request::Put { node, report, written_ms } => {
                self.trace.borrow_mut().stored(written_ms, context.world_ms());
                let expires_ms = wall_ms + REPORT_TTL.as_millis() as u64;
                self.reports.insert(node, (expires_ms, report));
                Response::Stored
            }
            Request::List => {
                self.reports.retain(|_, (expires_ms, _)| *expires_ms > wall_ms);
                let reports = self.reports.iter().map(|(node, (expires_ms, report))| {
                    (node.clone(), *report, Duration::from_millis(expires_ms - wall_ms))
                });
                Response::Listed(reports.collect())
            }
            Request::Claim { bucket, node } => {
                let first = !self.claims.contains_key(&bucket) || self.bug == Some(Bug::ClaimsAreNotUnique);
                self.claims.entry(bucket).or_insert(node);
                self.trace.borrow_mut().claimed(bucket);
                if first { Response::Won } else { Response::Taken }
            }
        }
    }
}
