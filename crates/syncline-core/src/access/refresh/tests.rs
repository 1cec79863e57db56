//! When a token is asked for: table tests in virtual time, and properties.

use proptest::prelude::*;

use super::*;

const TEN_MINUTES: Option<Duration> = Some(Duration::from_secs(600));

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_ms(seconds * 1_000)
}

#[test]
fn ac_09_a_token_is_used_until_30_s_before_its_end_counted_from_its_arrival() {
    let mut refresh = Refresh::new();
    assert_eq!(refresh.step(at(100)), Step::Ask);
    refresh.arrived(at(100), TEN_MINUTES, 0);
    assert_eq!(refresh.step(at(100)), Step::Use);
    assert_eq!(refresh.step(at(669)), Step::Use);
    assert_eq!(refresh.step(at(670)), Step::Ask);
    // Connections that stand are renewed between then and 5 s before the end.
    assert_eq!(refresh.renew_at(), Some(at(670)));
    refresh.arrived(at(100), TEN_MINUTES, u32::MAX);
    assert_eq!(refresh.renew_at(), Some(Timestamp::from_ms(694_999)));
}

#[test]
fn ac_09_of_a_short_token_the_first_half_is_used_and_one_without_an_end_for_ever() {
    let mut refresh = Refresh::new();
    refresh.arrived(at(0), Some(Duration::from_secs(10)), 0);
    assert_eq!((refresh.step(at(4)), refresh.step(at(5))), (Step::Use, Step::Ask));
    refresh.arrived(at(0), Some(Duration::ZERO), 0);
    assert_eq!(refresh.step(at(0)), Step::Ask);
    refresh.arrived(at(0), None, 0);
    assert_eq!((refresh.step(at(1 << 40)), refresh.renew_at()), (Step::Use, None));
}

#[test]
fn ac_09_tokens_that_had_ended_are_asked_for_ever_more_seldom_until_one_is_accepted() {
    let mut refresh = Refresh::new();
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        refresh.arrived(now, TEN_MINUTES, 0);
        refresh.expired(now, u32::MAX);
        let Step::Wait(until) = refresh.step(now) else { panic!("asked at once: {refresh:?}") };
        // In whole seconds, rounded up.
        pauses.push((until.saturating_since(now).as_millis() + 1) / 1_000);
        now = until;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    refresh.arrived(now, TEN_MINUTES, 0);
    refresh.accepted();
    refresh.expired(now, u32::MAX);
    assert_eq!(refresh.step(now), Step::Wait(now + Duration::from_millis(999)));
    refresh.reset();
    assert_eq!(refresh.step(now), Step::Ask);
}

#[test]
fn ac_09_a_token_that_comes_again_is_used_and_asked_about_ever_more_seldom() {
    let mut refresh = Refresh::new();
    refresh.arrived(at(0), TEN_MINUTES, 0);
    let mut now = at(570);
    let mut asked = 0;
    while now < at(600) {
        match refresh.step(now) {
            Step::Ask => {
                asked += 1;
                refresh.repeated(now, u32::MAX);
            }
            Step::Use => now = refresh.renew_at().unwrap(),
            Step::Wait(_) => panic!("one that is still good keeps nobody waiting"),
        }
    }
    assert_eq!(asked, 5);
}

#[test]
fn ac_09_while_the_back_end_is_down_the_token_serves_until_its_end() {
    let mut refresh = Refresh::new();
    refresh.arrived(at(0), TEN_MINUTES, 0);
    assert_eq!(refresh.step(at(570)), Step::Ask);
    refresh.failed(at(570), u32::MAX / 2);
    assert_eq!(refresh.step(at(570)), Step::Use);
    assert_eq!(refresh.step(at(571)), Step::Ask);
    (1..9).for_each(|_| refresh.failed(at(571), u32::MAX));
    assert_eq!((refresh.step(at(599)), refresh.renew_at()), (Step::Use, Some(at(600))));
    refresh.failed(at(600), u32::MAX);
    assert!(matches!(refresh.step(at(601)), Step::Wait(until) if until > at(650)), "{refresh:?}");
}

/// A thousand pages were opened in the same second, so their tokens end together. Nobody's issuer should notice.
#[test]
fn ac_09_a_thousand_clients_whose_tokens_end_at_once_are_spread_over_the_issuer() {
    let mut draw = 1_u32;
    let mut per_second = std::collections::BTreeMap::new();
    for _ in 0..1_000 {
        draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut refresh = Refresh::new();
        refresh.arrived(at(0), TEN_MINUTES, draw);
        *per_second.entry(refresh.renew_at().unwrap().as_ms() / 1_000).or_insert(0_u32) += 1;
    }
    assert_eq!(per_second.len(), 25, "{per_second:?}");
    assert!(per_second.values().all(|&asked| asked < 80), "{per_second:?}");
}

/// The issuer is down for ten minutes while a thousand clients need it.
#[test]
fn ac_09_a_thousand_clients_whose_issuer_is_down_ask_it_seldom_and_never_together() {
    let mut draw = 7_u32;
    let mut next = || {
        draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        draw
    };
    let mut per_second = vec![0_u32; 601];
    for _ in 0..1_000 {
        let (mut refresh, mut now) = (Refresh::new(), at(0));
        while now < at(600) {
            match refresh.step(now) {
                Step::Wait(until) => now = until,
                _ => {
                    per_second[usize::try_from(now.as_ms() / 1_000).unwrap()] += 1;
                    refresh.failed(now, next());
                }
            }
        }
    }
    // The first second has everybody's first question and some second ones; in the long run it is one in 30 s each.
    assert!(per_second[0] < 4_000, "{:?}", &per_second[..5]);
    let later = &per_second[120..600];
    assert!(later.iter().all(|&asked| asked < 80), "{later:?}");
    let mean = later.iter().sum::<u32>() / 480;
    assert!((25..50).contains(&mean), "{mean} a second");
}

proptest! {
    #[test]
    fn ac_09_whatever_the_times_a_renewal_lies_between_the_early_moment_and_the_end(
        now in 0..u64::MAX / 4, lives_ms in 0..u64::MAX / 4, random in any::<u32>(),
    ) {
        let (now, mut refresh) = (Timestamp::from_ms(now), Refresh::new());
        refresh.arrived(now, Some(Duration::from_millis(lives_ms)), random);
        let renew_at = refresh.renew_at().unwrap();
        let left_ms = (now + Duration::from_millis(lives_ms)).saturating_since(renew_at).as_millis();
        prop_assert!(left_ms <= 30_000.max(u128::from(lives_ms)) && (lives_ms < 60_000 || (5_000..=30_000).contains(&left_ms)));
    }
}
