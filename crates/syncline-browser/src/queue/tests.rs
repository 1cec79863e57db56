//! The queue through its exports, as the scripts drive it.

use super::*;

const SETTINGS: [f64; 8] = [1.0, 100.0, 500.0, 3.0, 20_000.0, 5.0, 1_000.0, 1_000.0];

fn fresh(settings: &[f64]) -> PacedQueue {
    PacedQueue::open(settings, 0.5, 0.0, 1e12, &[], &[], &[]).unwrap()
}

/// Where each ended key is, when to come back, and the calls to make.
fn turn(queue: &mut PacedQueue, now_ms: f64, done: &[f64]) -> (Vec<f64>, f64, Vec<[f64; 3]>) {
    queue.ended[..done.len()].copy_from_slice(done);
    let length = queue.turn(now_ms, 1e12 + now_ms, done.len(), true);
    let told = queue.told.clone();
    assert_eq!(told.len(), length);
    let (places, rest) = told.split_at(done.len());
    let starts = &rest[2 + 2 * rest[1] as usize..];
    (places.to_vec(), rest[0], starts.as_chunks().0.to_vec())
}

#[test]
fn qu_03_one_turn_ends_calls_and_begins_the_next_when_the_interval_is_over() {
    let mut queue = fresh(&SETTINGS);
    assert_eq!(queue.enqueue(0, vec![7, 8, 9, 7], &[]), [3.0, 0.0, 0.0, 1.0]);
    let (_, wake_at, starts) = turn(&mut queue, 0.0, &[]);
    assert_eq!((starts.len(), starts[0][0], starts[0][2]), (1, 7.0, 1.0));
    assert_eq!(wake_at, 25_000.0, "nothing to do until the call is over or lost");

    let (places, wake_at, starts) = turn(&mut queue, 40.0, &[starts[0][1]]);
    assert_eq!(
        (places, wake_at, starts.len()),
        (vec![4.0], 141.0, 0),
        "100 ms and the one that rounding may hide"
    );
    let (_, _, starts) = turn(&mut queue, 141.0, &[]);
    assert_eq!(starts[0][0], 8.0);
    assert_eq!((queue.place(7), queue.place(8), queue.place(9), queue.place(10)), (4, 2, 1, 0));
    assert_eq!(queue.list(4, 10), [7]);
}

#[test]
fn qu_04_qu_22_failures_end_or_come_back_and_dead_keys_can_be_revived() {
    let mut queue = fresh(&[1.0, 0.0, 500.0, 2.0, 20_000.0, 5.0, 1_000.0, 1_000.0]);
    queue.enqueue(0, vec![1, 2], &[]);
    let (_, _, starts) = turn(&mut queue, 0.0, &[]);
    let refused = queue.fail(1.0, 1e12, starts[0][1], Failure::Refused, None, "not found".to_owned());
    assert_eq!((refused, queue.reason(1).as_deref()), (5.0, Some("not found")));
    for (attempt, place) in [(1.0, 3.0), (2.0, 6.0)] {
        let (_, _, starts) = turn(&mut queue, attempt * 100_000.0, &[]);
        assert_eq!(starts[0][2], attempt);
        let now_ms = attempt * 100_000.0 + 1.0;
        assert_eq!(
            queue.fail(now_ms, 1e12, starts[0][1], Failure::Throttled, Some(5_000.0), String::new()),
            place
        );
    }
    assert_eq!(queue.list(6, 10), [2]);
    assert_eq!((queue.revive(2), queue.revive(1), queue.revive(1)), (true, true, false));
    assert_eq!(queue.place(2), 1);
    let status = queue.status(200_002.0);
    assert_eq!((status[0], status[11]), (2.0, 1.0), "both wait, and the whole queue is paused: {status:?}");
}

#[test]
fn bk_07_a_queue_is_the_same_after_its_rows_and_pace_were_kept() {
    let mut queue = fresh(&SETTINGS);
    queue.enqueue(0, vec![1, 2, 3, 4], &[]);
    queue.enqueue(2, vec![4], &[]);
    let (_, _, starts) = turn(&mut queue, 0.0, &[]);
    turn(&mut queue, 10.0, &[starts[0][1]]);
    let (_, _, starts) = turn(&mut queue, 500.0, &[]);
    assert_eq!(starts[0][0], 4.0);
    queue.enqueue(3, vec![4], &[]);
    let (rows, pace) = (queue.changes(), queue.pace());
    assert!(queue.changes().is_empty(), "each change is told once");

    let mut again = PacedQueue::open(&SETTINGS, 0.1, 9.0, 2e12, &rows, &pace, &[]).unwrap();
    assert_eq!(again.list(1, 10), [4, 2, 3], "what ran is first in line");
    assert_eq!((again.place(1), again.attempts(4)), (4, 1));
    let (_, wake_at, starts) = turn(&mut again, 9.0, &[]);
    assert_eq!((wake_at, starts.len()), (110.0, 0), "a call was cut off, so one interval passes");
}

#[test]
fn qu_26_a_pause_survives_and_unreadable_pace_means_one_interval() {
    let mut queue = fresh(&SETTINGS);
    queue.enqueue(0, vec![1, 2], &[]);
    let (_, _, starts) = turn(&mut queue, 0.0, &[]);
    queue.fail(1.0, 1e12, starts[0][1], Failure::Throttled, Some(60_000.0), String::new());
    let (rows, pace) = (queue.changes(), queue.pace());

    let mut again = PacedQueue::open(&SETTINGS, 0.1, 0.0, 1e12 + 20_000.0, &rows, &pace, &[]).unwrap();
    let wake_at = turn(&mut again, 0.0, &[]).1;
    assert!((40_000.0..=41_000.0).contains(&wake_at), "the rest of the minute: {wake_at}");
    let mut blind = PacedQueue::open(&SETTINGS, 0.1, 0.0, 1e12, &rows, &[1.0], &[]).unwrap();
    assert_eq!(turn(&mut blind, 0.0, &[]).1, 101.0);
    assert!(PacedQueue::open(&SETTINGS, 0.1, 0.0, 1e12, &rows[1..], &[], &[]).is_none());
    assert!(PacedQueue::open(&SETTINGS, 0.1, 0.0, 1e12, &[f64::NAN; 7], &[], &[]).is_none());
}

#[test]
fn qu_05_old_results_make_room_and_their_numbers_are_told() {
    let settings = [1.0, 0.0, 0.0, 1.0, 20_000.0, 5.0, 2.0, 1.0];
    for mut queue in [fresh(&settings), PacedQueue::fresh(&settings, 0.5, 0.0)] {
        assert_eq!(queue.enqueue(0, vec![1, 2, 3], &[]), [0.0, 3.0, 2.0]);
        assert_eq!(queue.enqueue(0, vec![1, 2], &[])[0], 2.0);
        let (_, _, first) = turn(&mut queue, 0.0, &[]);
        let (_, _, second) = turn(&mut queue, 0.0, &[first[0][1]]);
        assert_eq!(queue.take_freed(), [0_u32; 0]);
        turn(&mut queue, 0.0, &[second[0][1]]);
        assert_eq!(queue.take_freed(), [1]);
    }
}

#[test]
fn qu_02_results_from_elsewhere_are_kept_for_keys_in_line_alone() {
    let mut queue = fresh(&SETTINGS);
    queue.enqueue(0, vec![1], &[]);
    assert_eq!(queue.dequeue(0.0, &[1, 2, 1]), [1, 0, 0]);
    assert_eq!((queue.place(1), queue.place(2)), (4, 0));
}

#[test]
fn qu_32_groups_take_turns_and_are_the_same_after_they_were_kept() {
    let mut settings = SETTINGS.to_vec();
    settings[0] = 9.0;
    settings[1] = 0.0;
    settings.extend([1.0, 50.0]);
    let mut queue = fresh(&settings);
    assert_eq!(queue.enqueue(0, vec![1, 2, 3, 4], &[1, 1, 2, u32::MAX]), [4.0, 0.0, 0.0, 0.0]);
    let (_, _, starts) = turn(&mut queue, 0.0, &[]);
    let keys: Vec<f64> = starts.iter().map(|start| start[0]).collect();
    assert_eq!((keys, queue.group(4)), (vec![1.0, 3.0, 4.0], 0), "what makes no sense is no group");
    queue.fail(5.0, 1e12 + 5.0, starts[0][1], Failure::Throttled, Some(60_000.0), String::new());
    queue.hold_group(5.0, 2, true);
    let (rows, pace) = (queue.changes(), queue.pace());
    let groups = queue.group_changes(5.0, 1e12 + 5.0);
    assert_eq!((groups.len(), queue.group_changes(5.0, 1e12 + 5.0).len()), (10, 0), "{groups:?}");

    let mut again = PacedQueue::open(&settings, 0.1, 0.0, 1e12 + 20_000.0, &rows, &pace, &groups).unwrap();
    let shown = again.groups(9);
    assert_eq!((shown[6], shown[12], shown[12 + 3]), (1.0, 2.0, 1.0), "{shown:?}");
    again.hold_group(0.0, 2, false);
    let (_, _, starts) = turn(&mut again, 60.0, &[]);
    assert_eq!(starts.iter().map(|start| start[0]).collect::<Vec<_>>(), [4.0, 3.0]);
    let (_, _, starts) = turn(&mut again, 41_000.0, &[]);
    assert_eq!(starts.len(), 1, "the pause of the first group is over");
    assert!(again.knows_group(1) && !again.knows_group(7));
}

#[test]
fn no_number_breaks_it() {
    let odd = [f64::NAN, -1.0, f64::INFINITY, f64::MAX, 0.5];
    for number in odd {
        let mut queue =
            PacedQueue::open(&[number; 8], number, number, number, &[], &[number; 12], &[number; 11])
                .unwrap();
        queue.enqueue(9, vec![1, u32::MAX], &[]);
        queue.turn(number, number, usize::MAX, true);
        queue.fail(number, number, number, Failure::Throttled, Some(number), String::new());
        assert_eq!(queue.status(number).len(), 14);
    }
    assert_eq!(retry_after_ms("120", 0.0), Some(120_000.0));
    assert_eq!(retry_after_ms("soon", f64::NAN), None);
}
