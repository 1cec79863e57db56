//! Decisions about the line as tables.

use super::super::answer::{Outcome, Settled};
use super::super::kind::Kind;
use super::super::order::{Enqueued, Full, Limits};
use super::*;
use crate::time::Timestamp;

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// A line in which these wait, and the rows they have.
fn line_of(names: &[&str]) -> (Line, Vec<Row>) {
    let mut line = Line::default();
    line.begin(1);
    let entered = line.enqueue(&Limits::default(), Kind::New, &keys(names), Vec::new(), None);
    let Entered { told, rows, .. } = entered.unwrap();
    assert_eq!(told.added, names.len());
    (line, rows)
}

/// The keys in the order of their ranks.
fn order(rows: &[Row]) -> Vec<&str> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.is_waiting()).collect();
    rows.sort_by_key(|row| row.rank);
    rows.iter().map(|row| row.key.as_str()).collect()
}

/// Rows as they are once some were written.
fn written(mut rows: Vec<Row>, changed: Vec<Row>) -> Vec<Row> {
    rows.retain(|row| !changed.iter().any(|changed| changed.key == row.key));
    rows.extend(changed);
    rows
}

#[test]
fn hs_07_what_is_enqueued_goes_to_the_tail_or_right_after_the_head() {
    let told = |added, moved, ignored| Enqueued { added, moved, ignored, again: 0 };
    for (kind, names, expected, result) in [
        (Kind::New, &["x"][..], &["a", "b", "c", "x"][..], told(1, 0, 0)),
        (Kind::New, &["b", "x", "x"], &["a", "b", "c", "x"], told(1, 0, 2)),
        (Kind::Priority, &["x", "y"], &["a", "x", "y", "b", "c"], told(2, 0, 0)),
        (Kind::Priority, &["c"], &["a", "c", "b"], told(0, 1, 0)),
        (Kind::Priority, &["a"], &["a", "b", "c"], told(0, 0, 1)),
    ] {
        let (mut line, rows) = line_of(&["a", "b", "c"]);
        let found = rows.iter().filter(|row| names.contains(&row.key.as_str())).cloned().collect();
        let head = line.needs_head(kind).then(|| rows[0].clone());
        let enqueued = line.enqueue(&Limits::default(), kind, &keys(names), found, head);
        let Entered { told, rows: changed, .. } = enqueued.unwrap();
        assert_eq!(told, result, "{kind:?} {names:?}");
        let rows = written(rows, changed);
        assert_eq!(order(&rows), expected, "{kind:?} {names:?}");
        assert_eq!(line.waiting as usize, rows.len());
        assert!(rows.iter().all(|row| row.rank >= line.front && row.rank < line.tail));
    }
}

#[test]
fn hs_07_a_line_that_is_full_takes_none_and_keeps_what_it_has() {
    let (mut line, rows) = line_of(&["a", "b"]);
    let before = line.clone();
    let limits = Limits { max_keys: 3, ..Limits::default() };
    let found = rows[..1].to_vec();
    let full = line.enqueue(&limits, Kind::New, &keys(&["a", "x", "y"]), found, None).unwrap_err();
    assert_eq!((full, &line), (Full { held: 2, asked: 2, limit: 3 }, &before));
    assert!(line.enqueue(&limits, Kind::New, &keys(&["x"]), Vec::new(), None).is_ok());
}

#[test]
fn hs_07_a_key_that_runs_is_asked_for_once_more_and_then_goes_to_the_tail() {
    let (mut line, rows) = line_of(&["a", "b"]);
    let mut running = line.next(&Limits::default(), rows[..1].to_vec(), Vec::new());
    running[0].begin(7);
    let Entered { told, rows: changed, .. } =
        line.enqueue(&Limits::default(), Kind::Again, &keys(&["a", "a"]), running, None).unwrap();
    assert_eq!((told.again, changed.len(), changed[0].again), (2, 1, true));
    let update = line.leave(changed[0].clone(), Outcome::Done("old".to_owned()), None);
    assert_eq!((update.settled, &update.result, update.row.attempts), (Settled::Again, &None, 0));
    assert_eq!(order(&written(rows, vec![update.row])), ["b", "a"]);
    assert_eq!((line.waiting, line.running, line.done), (2, 0, 0));
}

#[test]
fn hs_07_what_an_outcome_makes_of_a_key() {
    let at = |ms| Timestamp::from_ms(ms);
    let why = || "why".to_owned();
    for (outcome, state, settled, attempts) in [
        (Outcome::Done(why()), RowState::Done, Settled::Done, 1),
        (Outcome::Failed(why()), RowState::Failed, Settled::Failed, 1),
        (Outcome::Dead(why()), RowState::Dead, Settled::Dead, 1),
        (Outcome::Retrying { due: at(9) }, RowState::Retrying, Settled::Retrying { due: at(9) }, 1),
        (Outcome::Excused { due: at(9) }, RowState::Retrying, Settled::Retrying { due: at(9) }, 0),
        (Outcome::Waiting, RowState::Line, Settled::Waiting, 0),
    ] {
        let (mut line, rows) = line_of(&["a", "b"]);
        let mut row = line.next(&Limits::default(), rows[..1].to_vec(), Vec::new()).remove(0);
        row.begin(1);
        let age = row.arrival_no;
        let mut updates = [line.leave(row, outcome.clone(), Some("retry".to_owned()))];
        line.put_first(&mut updates);
        let [update] = updates;
        assert_eq!((update.arrival_no, update.row.at, update.settled), (age, state, settled), "{outcome:?}");
        assert_eq!((update.row.attempts, update.row.call), (attempts, None), "{outcome:?}");
        assert_eq!(line.counts().running, 0, "{outcome:?}");
        assert_eq!(line.next_due, (state == RowState::Retrying).then_some(9));
        if state == RowState::Line {
            assert_eq!(order(&written(rows, vec![update.row])), ["a", "b"], "first in line again");
        }
    }
}

#[test]
fn hs_07_retries_come_back_after_the_head_and_the_given_up_where_their_kind_says() {
    let (mut line, mut rows) = line_of(&["a", "b", "c", "d"]);
    let mut gone = Vec::new();
    for (call, outcome) in [Outcome::Retrying { due: Timestamp::from_ms(5) }, Outcome::Dead("why".to_owned())]
        .into_iter()
        .enumerate()
    {
        let mut row = line.next(&Limits::default(), vec![rows.remove(0)], Vec::new()).remove(0);
        row.begin(call as u64);
        row.priority = call == 1;
        gone.push(line.leave(row, outcome, None).row);
    }
    assert_eq!(order(&rows), ["c", "d"]);
    let dead = gone.pop().unwrap();
    let head = line.has_head().then(|| rows[0].clone());
    let back = line.bring_back(gone, head);
    let rows = written(rows, back);
    assert_eq!(order(&rows), ["c", "a", "d"]);
    let head = line.has_head().then(|| rows.iter().min_by_key(|row| row.rank).unwrap().clone());
    let revived = line.revive(vec![dead], head);
    assert!(revived.iter().any(|row| row.key == "b" && row.attempts == 0));
    assert_eq!(order(&written(rows, revived)), ["c", "b", "a", "d"]);
    assert_eq!((line.waiting, line.retrying, line.dead), (4, 0, 0));
}

#[test]
fn qu_25_the_oldest_goes_after_so_many_that_overtook_it() {
    let row = |rank: i64, arrival_no: i64| Row::new(format!("{rank}"), rank, arrival_no);
    let rows = || (0..4).map(|n| row(n - 4, 10 + n)).chain([row(1, 1), row(2, 2)]);
    let by_rank: Vec<Row> = rows().collect();
    let mut by_age: Vec<Row> = rows().collect();
    by_age.sort_by_key(|row| row.arrival_no);
    let limits = Limits { max_overtakes: 2, ..Limits::default() };
    let mut line = Line { front: -4, tail: 20, waiting: 7, ..Line::default() };
    assert!(needs_ages(&by_rank));
    let order = line.next(&limits, by_rank, by_age);
    let keys: Vec<&str> = order.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys, ["-4", "-3", "1", "-2", "-1", "2"]);
    assert_eq!((line.front, line.oldest, line.overtakes), (0, 3, 0));
    assert_eq!((line.waiting, line.running), (1, 6));
}

#[test]
fn hs_07_results_beyond_the_limit_go_in_steps_and_are_counted() {
    let limits = Limits { max_results: 10, ..Limits::default() };
    let mut line = Line { done: 9, failed: 3, trimmed: 4, ..Line::default() };
    assert_eq!(line.results_beyond(&limits, 1), 2);
    line.trim(1, 1, Some(7));
    assert_eq!((line.done, line.failed, line.dropped, line.trimmed), (8, 2, 2, 8));
    assert_eq!(line.results_beyond(&limits, 1), 0);
    let line = Line { done: 5_000, ..Line::default() };
    assert_eq!(line.results_beyond(&limits, 5), 1_005, "no transaction deletes everything at once");
}

#[test]
fn hs_07_numbers_of_two_queues_never_meet_and_calls_that_nobody_knows_wait_again() {
    let (mut one, mut two) = (Line::default(), Line::default());
    one.begin(1);
    two.begin(2);
    assert!(two.tail - one.tail >= 1 << NUMBERS_BITS);
    let (mut line, rows) = line_of(&["a", "b"]);
    let _ = line.next(&Limits::default(), rows.clone(), Vec::new());
    assert!(!line.is_idle());
    line.forget_calls(1);
    assert_eq!((line.waiting, line.running), (2, 0));
    assert!(rows.iter().all(|row| row.rank >= line.front && row.arrival_no >= line.oldest));
    assert!(two.front > line.tail, "the bound is still this queue's own");
}
