//! Helpers of the host models that use files: random file sizes, and runs of consecutive pages.

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::workload::draw;

/// Draws an exponentially distributed file size with this mean, at least one page.
#[expect(clippy::cast_sign_loss, reason = "sizes are positive")]
pub(super) fn draw_file_size_pages(random: &mut Xoshiro256PlusPlus, mean: u64) -> u64 {
    (draw::exponential_draw(random, mean as f64).round() as u64).max(1)
}

/// Calls `each` for every run of consecutive page numbers in `pages`, with the first page of the run and its number of
/// pages.
pub(super) fn for_each_consecutive_run(pages: &[u32], mut each: impl FnMut(u64, u64)) {
    for run in pages.chunk_by(|a, b| a + 1 == *b) {
        each(u64::from(run[0]), run.len() as u64);
    }
}
