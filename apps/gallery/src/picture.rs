//! The built-in picture: a lake under the sky of the minute, with one lantern for each viewer.
//!
//! Pure: the same minute and the same number of viewers give the same picture to the byte, so the input's hash tells
//! whether there is anything new to paint. The hills belong to the day, the light to the minute, the lanterns to
//! whoever watches. The result is a self-contained SVG without scripts, links or fonts of its own.

use std::f64::consts::{PI, TAU};
use std::fmt::Write as _;

/// More lanterns than this no longer read as lanterns.
const LANTERNS_MAX: u64 = 120;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 750.0;
const SHORE: f64 = 560.0;
const MINUTES_PER_DAY: u64 = 24 * 60;

/// What a picture depends on, and all it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scene {
    /// Minutes since the epoch.
    pub minute: u64,
    /// How many are watching.
    pub viewers: u64,
}

/// Paints the scene as SVG text.
pub fn paint(scene: Scene) -> String {
    let day = scene.minute / MINUTES_PER_DAY;
    let minute_of_day = scene.minute % MINUTES_PER_DAY;
    let hour = minute_of_day as f64 / 60.0;
    let light = Light::at(hour);
    let mut svg = String::with_capacity(24 * 1024);
    open(&mut svg, scene, &light);
    sky(&mut svg, day, hour, &light);
    hills(&mut svg, day, &light);
    lake(&mut svg, scene.minute, &light);
    lanterns(&mut svg, scene);
    caption(&mut svg, scene, minute_of_day);
    svg.push_str("</svg>\n");
    svg
}

/// The colours of one moment, between four painted by hand.
struct Light {
    zenith: Rgb,
    horizon: Rgb,
    hill_far: Rgb,
    hill_near: Rgb,
    stars: f64,
}

impl Light {
    fn at(hour: f64) -> Light {
        let night = Light::painted(0x0b_10_2b, 0x2a_2f_5e, 0x27_2c_55, 0x08_0b_1c, 1.0);
        let dawn = Light::painted(0x3b_4a_8c, 0xf7_b2_8b, 0x8d_6f_9a, 0x22_1f_3f, 0.15);
        let noon = Light::painted(0x3f_8f_d2, 0xd9_ee_f7, 0x8f_b4_c9, 0x1f_4a_55, 0.0);
        let dusk = Light::painted(0x35_2c_6e, 0xff_8a_5c, 0x8a_4f_7d, 0x1e_15_33, 0.2);
        // Hours at which each painted light is pure; night wraps around.
        let stops = [
            (0.0, &night),
            (4.5, &night),
            (6.5, &dawn),
            (9.5, &noon),
            (15.5, &noon),
            (18.3, &dusk),
            (20.5, &night),
            (24.0, &night),
        ];
        let after = stops.iter().position(|(at, _)| *at > hour).unwrap_or(stops.len() - 1);
        let ((from_at, from), (to_at, to)) = (stops[after - 1], stops[after]);
        from.blend(to, smooth((hour - from_at) / (to_at - from_at)))
    }

    fn painted(zenith: u32, horizon: u32, hill_far: u32, hill_near: u32, stars: f64) -> Light {
        Light {
            zenith: Rgb::hex(zenith),
            horizon: Rgb::hex(horizon),
            hill_far: Rgb::hex(hill_far),
            hill_near: Rgb::hex(hill_near),
            stars,
        }
    }

    fn blend(&self, other: &Light, share: f64) -> Light {
        Light {
            zenith: self.zenith.blend(other.zenith, share),
            horizon: self.horizon.blend(other.horizon, share),
            hill_far: self.hill_far.blend(other.hill_far, share),
            hill_near: self.hill_near.blend(other.hill_near, share),
            stars: self.stars + (other.stars - self.stars) * share,
        }
    }
}

#[derive(Clone, Copy)]
struct Rgb(f64, f64, f64);

impl Rgb {
    fn hex(value: u32) -> Rgb {
        let part = |shift: u32| f64::from((value >> shift) & 0xff);
        Rgb(part(16), part(8), part(0))
    }

    fn blend(self, other: Rgb, share: f64) -> Rgb {
        let mix = |from: f64, to: f64| from + (to - from) * share;
        Rgb(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

impl std::fmt::Display for Rgb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0.round() as u8, self.1.round() as u8, self.2.round() as u8)
    }
}

/// Small, seeded and the same on every platform for ever; nothing here needs better randomness than that.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995)
    }

    /// Uniform in 0..1.
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.roll()
    }
}

fn smooth(share: f64) -> f64 {
    let share = share.clamp(0.0, 1.0);
    share * share * (3.0 - 2.0 * share)
}

/// Appends formatted text; writing to a `String` cannot fail.
macro_rules! put {
    ($svg:expr, $($arg:tt)*) => { write!($svg, $($arg)*).expect("a String takes every write") };
}

fn open(svg: &mut String, scene: Scene, light: &Light) {
    put!(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 750\" role=\"img\">");
    put!(
        svg,
        "<title>A lake at {}, {} watching</title>",
        clock(scene.minute % MINUTES_PER_DAY),
        scene.viewers
    );
    put!(svg, "<defs>");
    put!(
        svg,
        "<linearGradient id=\"sky\" x2=\"0\" y2=\"1\"><stop stop-color=\"{}\"/><stop offset=\"1\" stop-color=\"{}\"/></linearGradient>",
        light.zenith,
        light.horizon
    );
    let deep = light.zenith.blend(light.hill_near, 0.45);
    put!(
        svg,
        "<linearGradient id=\"lake\" x2=\"0\" y2=\"1\"><stop stop-color=\"{}\"/><stop offset=\"1\" stop-color=\"{deep}\"/></linearGradient>",
        light.horizon.blend(light.hill_far, 0.35)
    );
    put!(
        svg,
        "<radialGradient id=\"disc\"><stop stop-color=\"#fff8e4\"/><stop offset=\".16\" stop-color=\"#fff1cf\"/><stop offset=\".2\" stop-color=\"#ffe9b8\" stop-opacity=\".42\"/><stop offset=\"1\" stop-color=\"#ffdf9e\" stop-opacity=\"0\"/></radialGradient>"
    );
    put!(
        svg,
        "<radialGradient id=\"glow\"><stop stop-color=\"#ffd27a\" stop-opacity=\".75\"/><stop offset=\".35\" stop-color=\"#ff9d45\" stop-opacity=\".28\"/><stop offset=\"1\" stop-color=\"#ff7a2f\" stop-opacity=\"0\"/></radialGradient>"
    );
    put!(
        svg,
        "<linearGradient id=\"paper\" x2=\"0\" y2=\"1\"><stop stop-color=\"#ffb35c\"/><stop offset=\".75\" stop-color=\"#fff0c2\"/><stop offset=\"1\" stop-color=\"#ffcf87\"/></linearGradient>"
    );
    put!(
        svg,
        "<g id=\"lantern\"><circle r=\"34\" fill=\"url(#glow)\"/><path d=\"M-7-11Q0-15 7-11L9 6Q0 10-9 6Z\" fill=\"url(#paper)\"/><path d=\"M-6 7Q0 10 6 7L5 9Q0 11-5 9Z\" fill=\"#7a3b16\"/></g>"
    );
    put!(svg, "</defs>");
}

fn sky(svg: &mut String, day: u64, hour: f64, light: &Light) {
    put!(svg, "<rect width=\"1200\" height=\"750\" fill=\"url(#sky)\"/>");
    if light.stars > 0.01 {
        let mut dice = Dice::new(0x57a2);
        put!(svg, "<g fill=\"#fff\" opacity=\"{:.2}\">", light.stars);
        for _ in 0..150 {
            // Squaring thins the stars out towards the horizon.
            let (x, height) = (dice.between(0.0, WIDTH), dice.roll().powi(2));
            put!(
                svg,
                "<circle cx=\"{x:.0}\" cy=\"{:.0}\" r=\"{:.1}\" opacity=\"{:.2}\"/>",
                8.0 + height * 400.0,
                dice.between(0.5, 1.7),
                dice.between(0.35, 1.0)
            );
        }
        svg.push_str("</g>");
    }
    // The sun is up from six to eighteen, the moon in the other half; both walk the same arc.
    let sunlit = (6.0..18.0).contains(&hour);
    let way = if sunlit { (hour - 6.0) / 12.0 } else { (hour + 24.0 - 18.0) % 24.0 / 12.0 };
    let (x, y) = (80.0 + way * (WIDTH - 160.0), 470.0 - (way * PI).sin() * 360.0);
    if sunlit {
        put!(svg, "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"240\" fill=\"url(#disc)\"/>");
    } else {
        moon(svg, day, x, y);
    }
    clouds(svg, day, hour, light);
}

/// The moon in the day's phase: one lit path of two arcs.
fn moon(svg: &mut String, day: u64, x: f64, y: f64) {
    const SYNODIC_DAYS: f64 = 29.530_588;
    const NEW_MOON_DAY: f64 = 10_962.76;
    let phase = ((day as f64 - NEW_MOON_DAY) / SYNODIC_DAYS).rem_euclid(1.0);
    let waxing = phase < 0.5;
    let bulge = (phase * TAU).cos() * 30.0;
    let outer = u8::from(waxing);
    let inner = u8::from((bulge > 0.0) != waxing);
    put!(
        svg,
        "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"150\" fill=\"url(#disc)\" opacity=\".18\"/><circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"30\" fill=\"#fdf6df\" opacity=\".1\"/>"
    );
    put!(
        svg,
        "<path transform=\"translate({x:.0} {y:.0})\" d=\"M0-30A30 30 0 0 {outer} 0 30A{:.1} 30 0 0 {inner} 0-30Z\" fill=\"#fdf6df\"/>",
        bulge.abs()
    );
}

fn clouds(svg: &mut String, day: u64, hour: f64, light: &Light) {
    let mut dice = Dice::new(day ^ 0xc10d);
    let colour = light.horizon.blend(Rgb(255.0, 255.0, 255.0), 0.45);
    put!(svg, "<g fill=\"{colour}\">");
    for _ in 0..7 {
        let (speed, start, y) =
            (dice.between(18.0, 46.0), dice.between(0.0, 1500.0), dice.between(70.0, 360.0));
        let x = (start + hour * speed).rem_euclid(1500.0) - 150.0;
        let (long, opacity) = (dice.between(70.0, 150.0), dice.between(0.08, 0.26));
        put!(svg, "<g opacity=\"{opacity:.2}\">");
        for puff in 0..4 {
            let shift = f64::from(puff) - 1.5;
            put!(
                svg,
                "<ellipse cx=\"{:.0}\" cy=\"{:.0}\" rx=\"{:.0}\" ry=\"{:.0}\"/>",
                x + shift * long * 0.55,
                y + dice.between(-7.0, 7.0),
                long * dice.between(0.5, 0.8),
                dice.between(7.0, 16.0)
            );
        }
        svg.push_str("</g>");
    }
    svg.push_str("</g>");
}

fn hills(svg: &mut String, day: u64, light: &Light) {
    const RIDGES: u32 = 5;
    for ridge in 0..RIDGES {
        let near = f64::from(ridge) / f64::from(RIDGES - 1);
        let mut dice = Dice::new(day.wrapping_mul(31) + u64::from(ridge));
        let waves: Vec<(f64, f64, f64)> = (0..6)
            .map(|octave| {
                let scale = 2f64.powi(octave);
                (
                    dice.between(0.7, 1.5) * scale,
                    dice.between(0.0, TAU),
                    (1.0 - 0.25 * near) * 62.0 / scale.powf(1.05),
                )
            })
            .collect();
        let base = 330.0 + near * 165.0;
        put!(
            svg,
            "<path fill=\"{}\" d=\"M0 {SHORE:.0}",
            light.hill_far.blend(light.hill_near, near.powf(0.85))
        );
        for step in 0..=120 {
            let x = f64::from(step) * 10.0;
            let rise: f64 =
                waves.iter().map(|(pace, phase, size)| (x / WIDTH * TAU * pace + phase).sin() * size).sum();
            // Ridges bend down towards the shore at both sides, so that the lake lies in a valley.
            let valley = ((x / WIDTH - 0.5).abs() * 2.0).powi(2) * 50.0;
            put!(svg, "L{x:.0} {:.1}", (base - rise * 0.9 - valley).min(SHORE));
        }
        put!(svg, "L1200 {SHORE:.0}Z\"/>");
    }
}

fn lake(svg: &mut String, minute: u64, light: &Light) {
    put!(svg, "<rect y=\"{SHORE:.0}\" width=\"1200\" height=\"{:.0}\" fill=\"url(#lake)\"/>", HEIGHT - SHORE);
    let mut dice = Dice::new(minute ^ 0x1a4e);
    let shimmer = light.horizon.blend(Rgb(255.0, 255.0, 255.0), 0.3);
    put!(svg, "<g stroke=\"{shimmer}\" stroke-linecap=\"round\">");
    for _ in 0..70 {
        let depth = dice.roll().powf(1.4);
        let (x, y, long) = (
            dice.between(-20.0, WIDTH),
            SHORE + 4.0 + depth * (HEIGHT - SHORE - 8.0),
            dice.between(8.0, 30.0) + depth * 70.0,
        );
        put!(
            svg,
            "<path d=\"M{x:.0} {y:.1}h{long:.0}\" stroke-width=\"{:.1}\" opacity=\"{:.2}\"/>",
            0.8 + depth * 1.4,
            dice.between(0.06, 0.3)
        );
    }
    svg.push_str("</g>");
}

/// One lantern a viewer, each with its own place in the sky and its reflection in the water.
fn lanterns(svg: &mut String, scene: Scene) {
    for index in (0..scene.viewers.min(LANTERNS_MAX)).rev() {
        let mut dice = Dice::new(index.wrapping_mul(0x2545_f491) + 7);
        let crowd = scene.viewers.min(LANTERNS_MAX) as f64;
        let far = dice.roll();
        let size = (1.9 - far * 1.2) * (1.0 - crowd / 400.0);
        // Golden-ratio steps keep neighbours apart however many there are.
        let lane = (index as f64 * 0.618_034 + 0.42).fract();
        let drift = (
            (scene.minute as f64 / 9.0 + dice.between(0.0, TAU)).sin() * 22.0,
            (scene.minute as f64 / 6.0 + dice.between(0.0, TAU)).sin() * 16.0,
        );
        let (x, y) = (
            90.0 + lane * (WIDTH - 180.0) + drift.0,
            130.0 + far * 200.0 + dice.between(0.0, 130.0) + drift.1,
        );
        put!(svg, "<use href=\"#lantern\" transform=\"translate({x:.0} {y:.0}) scale({size:.2})\"/>");
        let mirrored = SHORE + 12.0 + (SHORE - y) * 0.32;
        put!(
            svg,
            "<ellipse cx=\"{x:.0}\" cy=\"{mirrored:.0}\" rx=\"{:.0}\" ry=\"{:.0}\" fill=\"url(#glow)\" opacity=\".6\"/>",
            9.0 * size,
            30.0 * size
        );
    }
}

fn caption(svg: &mut String, scene: Scene, minute_of_day: u64) {
    let watching = match scene.viewers {
        0 => "nobody watching".to_owned(),
        viewers => format!("{viewers} watching"),
    };
    put!(
        svg,
        "<text x=\"36\" y=\"718\" fill=\"#fff\" fill-opacity=\".86\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"22\">{} UTC · {watching}</text>",
        clock(minute_of_day)
    );
}

fn clock(minute_of_day: u64) -> String {
    format!("{:02}:{:02}", minute_of_day / 60, minute_of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 20_772 * MINUTES_PER_DAY + 12 * 60;

    fn lanterns_in(svg: &str) -> usize {
        svg.matches("<use href=\"#lantern\"").count()
    }

    #[test]
    fn vw_20_the_same_scene_is_the_same_picture_to_the_byte() {
        let scene = Scene { minute: NOON, viewers: 3 };
        assert_eq!(paint(scene), paint(scene));
    }

    #[test]
    fn vw_20_another_minute_or_another_viewer_is_another_picture() {
        let scene = Scene { minute: NOON, viewers: 3 };
        assert_ne!(paint(scene), paint(Scene { minute: NOON + 1, ..scene }));
        assert_ne!(paint(scene), paint(Scene { viewers: 4, ..scene }));
    }

    #[test]
    fn vw_20_one_lantern_for_each_viewer_up_to_the_limit() {
        for (viewers, lanterns) in [(0, 0), (1, 1), (40, 40), (LANTERNS_MAX, 120), (u64::MAX, 120)] {
            assert_eq!(lanterns_in(&paint(Scene { minute: NOON, viewers })), lanterns, "{viewers} viewers");
        }
    }

    #[test]
    fn vw_20_every_minute_of_a_month_paints_within_the_stores_limit() {
        for minute in (NOON..NOON + 30 * MINUTES_PER_DAY).step_by(17) {
            let svg = paint(Scene { minute, viewers: u64::MAX });
            assert!(svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "minute {minute}");
            assert!(svg.len() < syncline_core::kv::VALUE_MAX_BYTES, "minute {minute}: {} bytes", svg.len());
        }
    }
}
