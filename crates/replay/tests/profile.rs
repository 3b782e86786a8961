//! Profiles whose tables are full: the sample shrinks on the way, and what it says stays true.

use wearwell_replay::profile::{Profile, Profiler};
use wearwell_replay::workload::Generator;
use wearwell_trace::Request;

fn profile_of(mut profiler: Profiler) -> Profile {
    let spec = "zipf:theta=0.6,pages=30000,requests=150000,scramble=yes+dup:share=0.3,theta=0,compress=0.4";
    let mut generator = Generator::new(&spec.parse().unwrap());
    let mut request = Request::default();
    while generator.next(&mut request) {
        profiler.request(&request);
    }
    profiler.profile(String::new())
}

#[track_caller]
fn assert_within(found: f64, expected: f64, error: f64) {
    assert!(error > 0.0 && error < 0.05, "standard error {error}");
    assert!((found - expected).abs() < 4.0 * error, "{found} is not {expected} within 4 x {error}");
}

#[test]
fn a_full_table_halves_the_sample_and_keeps_the_shares() {
    let whole = profile_of(Profiler::new(1));
    let bounded = profile_of(Profiler::bounded(1, 4000));
    assert_eq!((whole.pages_sampled_1_of, whole.contents_sampled_1_of), (1, 1));
    assert!(bounded.pages_sampled_1_of >= 8 && bounded.contents_sampled_1_of >= 16);
    let (whole_content, content) = (whole.content.unwrap(), bounded.content.unwrap());
    let error = content.duplicate_share_error;
    assert_within(content.duplicate_share, whole_content.duplicate_share, error);
    let mean = |sizes: Option<wearwell_replay::profile::SizeShares>| sizes.unwrap().mean;
    let error = content.compressed_mean_error;
    assert_within(mean(content.compressed), mean(whole_content.compressed), error);
    let (whole_rewrites, rewrites) = (whole.rewrites.unwrap(), bounded.rewrites.unwrap());
    assert_within(rewrites.rewrite_share, whole_rewrites.rewrite_share, rewrites.rewrite_share_error);
    assert_within(rewrites.once_share, whole_rewrites.once_share, rewrites.once_share_error);
    let written =
        |profile: Option<wearwell_replay::profile::TrafficFigures>| profile.unwrap().written_pages as f64;
    let share = written(bounded.traffic) / written(whole.traffic);
    assert!((share - 1.0).abs() < 0.1, "{share} of the written pages");
}
