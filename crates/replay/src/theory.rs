//! Closed forms and mean-field models that predict a simulated number before the simulation.
//!
//! Tests use a formula as the oracle of an engine, and reports print the prediction next to the measurement. The key
//! decision is to offer the *finite block* mean field for greedy collection next to the well-known large-block limit:
//! at 128 pages per block the limit is 1 to 6 % too high, so that a correct engine would look broken. The price is a
//! small search instead of one formula, a few microseconds per call.
//!
//! Conventions: `u` is the utilisation logical / physical, in (0, 1). Use [`effective_utilisation`] for it, because
//! collection never sees the free pool and half-filled open blocks. `b` is pages per block. All forms of write
//! amplification hold for uniform random single-page writes with every page mapped and no trim. An argument outside its
//! stated domain is an error of the caller and panics with a message.

use std::f64::consts::E;

use crate::bisection::bisect;

/// Days in a year, as endurance ratings count them.
pub const DAYS_PER_YEAR: f64 = 365.0;

/// Returns the principal branch of the Lambert W function: the `w >= -1` with `w exp(w) = x`.
///
/// Domain `x >= -1/e`. Halley's iteration from a first guess that is good to a few percent; the relative error is below
/// 1e-12 except within 1e-8 of the branch point `-1/e`, where `x` itself does not determine `w` more closely. Source:
/// Corless et al., "On the Lambert W function", 1996.
pub fn lambert_w0(x: f64) -> f64 {
    assert!(x >= -1.0 / E - 1e-15, "W0 is real only from -1/e on, not at {x}");
    let branch_distance = (2.0 * (E * x + 1.0)).max(0.0).sqrt();
    if branch_distance < 1e-7 {
        return branch_distance - 1.0;
    }
    let mut w = lambert_first_guess(x, branch_distance);
    for _ in 0..50 {
        let step = lambert_halley_step(w, x);
        w -= step;
        if step.abs() <= 1e-15 * w.abs() {
            break;
        }
    }
    w
}

/// Returns a first guess of the Lambert W function of `x`, good to a few percent; `branch_distance` is how far `x` is
/// from `-1/e`.
fn lambert_first_guess(x: f64, branch_distance: f64) -> f64 {
    if x < 0.3 {
        return -1.0 + branch_distance - branch_distance.powi(2) / 3.0
            + 11.0 / 72.0 * branch_distance.powi(3);
    }
    let log = x.ln_1p();
    log * (1.0 - log.ln_1p() / (2.0 + log))
}

/// Returns the correction to subtract from `w` in a step of Halley's iteration for `w exp(w) = x`.
fn lambert_halley_step(w: f64, x: f64) -> f64 {
    let error = w * w.exp() - x;
    error / (w.exp() * (w + 1.0) - (w + 2.0) * error / (2.0 * w + 2.0))
}

/// Panics unless `u` is a utilisation: logical pages as a share of the physical ones, greater than 0 and less than 1.
fn require_utilisation(u: f64) {
    assert!(u > 0.0 && u < 1.0, "utilisation is logical/physical and lies in (0, 1), not {u}");
}

/// Returns the effective utilisation (logical / physical pages) under garbage collection. The blocks of the free pool,
/// and on average half of every open block, do not count as physical pages, because they hold no data that GC could
/// collect. `open_blocks` is the number of open blocks.
///
/// With 8 free blocks of 16384 this changes greedy write amplification by 0.6 % at 7 % over-provisioning. The result is
/// in (0, 1) if the free and open blocks leave enough pages for the logical pages.
pub fn effective_utilisation(
    logical_pages: u64,
    physical_pages: u64,
    free_blocks: u64,
    open_blocks: u64,
    pages_per_block: u64,
) -> f64 {
    let reserved = (free_blocks as f64 + open_blocks as f64 / 2.0) * pages_per_block as f64;
    let u = logical_pages as f64 / (physical_pages as f64 - reserved);
    require_utilisation(u);
    u
}

/// Returns the write amplification of FIFO (LRU) cleaning at any block size, which is also the limit of greedy cleaning
/// for very large blocks.
///
/// `A = a / (a + W0(-a exp(-a)))` with `a = 1/u`, where `u` is the utilisation (logical / physical pages) and `W0` the
/// Lambert W function. Sources: Desnoyers, SYSTOR 2012 (LRU); Xiang and Kurkoski 2012 (greedy, large blocks; arXiv
/// 1110.4245). Domain `u` in (0, 1).
pub fn fifo_write_amplification(u: f64) -> f64 {
    require_utilisation(u);
    let a = 1.0 / u;
    a / (a + lambert_w0(-a * (-a).exp()))
}

/// Steady state of greedy collection with finite blocks, from [`greedy_steady_state`].
#[derive(Clone, PartialEq, Debug)]
pub struct GreedySteadyState {
    /// Page programs per host write.
    pub write_amplification: f64,
    /// Lowest number of valid pages of a closed block, called `m` in the formulas; blocks keep this number until GC
    /// collects them.
    pub min_valid_pages: usize,
    /// Time `tau` in `[0, 1/m]` for which blocks wait with the lowest number `m` of valid pages before GC collects
    /// them. The unit is the mean time until a valid page is overwritten, so that a waiting block loses one more page
    /// with the probability `m tau`.
    pub wait_in_mean_page_lifetimes: f64,
    /// Share of closed blocks with `i` valid pages, at index `i` from 0 to `b`, the pages per block. The shares sum to
    /// 1; their mean number of valid pages is `u b`, with the utilisation `u`.
    pub valid_count_shares: Vec<f64>,
}

/// Returns the mean-field steady state of greedy collection with `pages_per_block` pages per block (`b` in the
/// formulas) at utilisation `u` (logical / physical pages).
///
/// Let `m` be the number of valid pages at which blocks are collected. A block with `i` valid pages loses a valid page
/// at a rate proportional to `i`. In the steady state, equally many blocks per unit of time pass each step of `b -> b-1
/// -> .. -> m`, so that the share of blocks with `i` valid pages is `c / i`. Blocks wait at `m` for a time `tau`, and
/// their share is `c tau`. The shares sum to one: `c (H_b - H_m + tau) = 1`, with the harmonic numbers `H`. The mean
/// number of valid pages is `c (b - m + m tau) = u b`. These two equations determine `tau` for a given `m`, and exactly
/// one `m` has `tau` in `[0, 1/m]`. The write amplification is then `A = b / (b - X)`, with `X = m - m tau`. If `u` is
/// less than `1/H_b`, blocks drain completely: `m = 0`, `A = 1`.
///
/// Believed equal to the `d -> infinity` mean field of Van Houdt 2013 and the finite-block analyses of Bux and Iliadis
/// 2010 and Desnoyers 2012. Exact as the number of blocks grows; at 8192 blocks within 0.15 %. Domain `u` in (0, 1), at
/// least one page per block.
pub fn greedy_steady_state(u: f64, pages_per_block: usize) -> GreedySteadyState {
    require_utilisation(u);
    assert!(pages_per_block > 0, "a block has at least one page");
    let b = pages_per_block as f64;
    let (floor, harmonic_above) = greedy_min_valid_pages(u, pages_per_block);
    let m = floor as f64;
    let tau = (b - m - u * b * harmonic_above) / (u * b - m);
    let victim_valid = m - m * tau;
    GreedySteadyState {
        write_amplification: b / (b - victim_valid),
        min_valid_pages: floor,
        wait_in_mean_page_lifetimes: tau,
        valid_count_shares: greedy_valid_count_shares(pages_per_block, floor, tau, harmonic_above),
    }
}

/// Returns `m`, the lowest number of valid pages of a closed block under greedy collection, and the difference `H_b -
/// H_m` of harmonic numbers (`b` is the pages per block). It is the `m` for which `tau`, the time for which blocks wait
/// at `m`, lies in `[0, 1/m]`. Searches downwards from `m = b - 1`.
fn greedy_min_valid_pages(u: f64, pages_per_block: usize) -> (usize, f64) {
    let b = pages_per_block as f64;
    let (mut m, mut harmonic_above) = (pages_per_block - 1, 1.0 / b);
    while m > 0 {
        let lower = harmonic_above + 1.0 / m as f64;
        let utilisation_one_lower = (b - (m - 1) as f64) / (b * lower);
        if utilisation_one_lower < u {
            break;
        }
        m -= 1;
        harmonic_above = lower;
    }
    (m, harmonic_above)
}

/// Returns the share of closed blocks for each number of valid pages, from 0 to the pages per block, under greedy
/// collection.
fn greedy_valid_count_shares(
    pages_per_block: usize,
    min_valid_pages: usize,
    wait_at_min_valid: f64,
    harmonic_difference: f64,
) -> Vec<f64> {
    let c = 1.0 / (harmonic_difference + wait_at_min_valid);
    let mut shares = vec![0.0; pages_per_block + 1];
    shares[min_valid_pages] = c * wait_at_min_valid;
    for (i, share) in shares.iter_mut().enumerate().skip(min_valid_pages + 1) {
        *share = c / i as f64;
    }
    shares
}

/// Returns the write amplification if the victim is the block with the fewest valid pages among `choices` (`d` in the
/// formulas) random closed blocks (mean field).
///
/// `S_i` is the share of blocks with at least `i` of `b` valid pages. It follows from the top: `S_{b+1} = 0` and `(b -
/// X) i (S_i - S_{i+1}) / (u b) = 1 - S_i^d`, with the utilisation `u`. `X`, the valid pages of a victim, is the value
/// with `sum S_i = u b`. The result is `A = b / (b - X)`; one choice gives exactly `1 / (1 - u)`. Source: the mean
/// field of Van Houdt 2013. Domain: `u` in (0, 1), at least one page and one choice. Costs about `50 b` small root
/// searches.
pub fn d_choices_write_amplification(u: f64, pages_per_block: usize, choices: u32) -> f64 {
    require_utilisation(u);
    assert!(pages_per_block > 0 && choices > 0, "a block has a page, and a draw has a choice");
    let b = pages_per_block as f64;
    let victim_valid =
        bisect(0.0, b, 60, |x| d_choices_mean_valid_pages(x, u, pages_per_block, choices) < u * b);
    b / (b - victim_valid)
}

/// Returns the mean number of valid pages of a closed block at utilisation `u` if victims hold `victim_valid` valid
/// pages. The result increases with `victim_valid`.
fn d_choices_mean_valid_pages(victim_valid: f64, u: f64, pages_per_block: usize, choices: u32) -> f64 {
    let b = pages_per_block as f64;
    let (mut above, mut sum) = (0.0, 0.0);
    for i in (1..=pages_per_block).rev() {
        let rate = (b - victim_valid) * i as f64 / (u * b);
        above = d_choices_upper_cumulative_share(above, rate, choices);
        sum += above;
    }
    sum
}

/// Returns the share `S_i` of blocks with at least `i` valid pages, if `above` is the share `S_{i+1}` with at least
/// `i + 1`, in the steady state that [`d_choices_write_amplification`] describes. Solves `rate (s - above) = 1 -
/// s^choices` for `s` in `[above, 1]`, where `rate` is `(b - X) i / (u b)`. Newton's method from the right end never
/// overshoots, because the difference of the two sides is increasing and convex in `s`.
fn d_choices_upper_cumulative_share(above: f64, rate: f64, choices: u32) -> f64 {
    let d = f64::from(choices);
    let mut s = 1.0;
    for _ in 0..60 {
        let power = f64::powf(s, d - 1.0);
        let step = (rate * (s - above) - 1.0 + power * s) / (rate + d * power);
        s -= step;
        if step.abs() <= 1e-16 {
            break;
        }
    }
    s
}

/// Returns the erases per host page write in a steady state: write amplification divided by the pages per block,
/// because every erase makes room for that number of programs.
pub fn erases_per_host_write(write_amplification: f64, pages_per_block: usize) -> f64 {
    write_amplification / pages_per_block as f64
}

/// Returns the translation-page writes (synchronisations) per insert of a dirty map entry, for uniform random inserts:
/// `1 / (1 + C/TPT)`.
///
/// `dirty_entries_per_translation_page` (`C/TPT`) is the number of dirty cached entries divided by the number of
/// translation pages. A synchronisation writes all dirty entries of one translation page, on average `1 + C/TPT`.
/// Source: derived for `GeckoFTL`'s lazy synchronisation (Dayan, Bonnet, Idreos, SIGMOD 2016). Domain: `C/TPT >= 0`.
pub fn lazy_map_writes_per_dirty_insert(dirty_entries_per_translation_page: f64) -> f64 {
    assert!(dirty_entries_per_translation_page >= 0.0, "entries per translation page cannot be negative");
    1.0 / (1.0 + dirty_entries_per_translation_page)
}

/// Returns the write amplification caused by lazy translation: `I (1 + 1/delta) / (1 + C/TPT)`.
///
/// `dirty_inserts_per_host_write` is `I`, the dirty inserts per host write: 1, or the write amplification of collection
/// if migrations insert too. `write_read_cost_ratio` is `delta`, the cost of a program divided by that of a read: a
/// synchronisation reads the old translation page and programs the new one. `dirty_entries_per_translation_page` is
/// `C/TPT`, the dirty cached entries divided by the translation pages.
pub fn lazy_translation_cost_per_host_write(
    dirty_inserts_per_host_write: f64,
    write_read_cost_ratio: f64,
    dirty_entries_per_translation_page: f64,
) -> f64 {
    dirty_inserts_per_host_write
        * (1.0 + 1.0 / write_read_cost_ratio)
        * lazy_map_writes_per_dirty_insert(dirty_entries_per_translation_page)
}

/// Returns the write amplification of a page-validity bitmap on flash: `1 + 1/delta + (A/b)/delta`.
///
/// Every host write rewrites one bitmap page (a program and a read), and every collection reads one bitmap page more.
/// `delta` is `write_read_cost_ratio`, `A` is `write_amplification` of the data and `b` the pages per block. Source:
/// `GeckoFTL`'s baseline (SIGMOD 2016). The result is 1.1015 at utilisation 0.7, `delta = 10` and `b = 128`, if `A` is
/// that of greedy collection in the limit of large blocks.
pub fn flash_bitmap_cost_per_host_write(
    write_read_cost_ratio: f64,
    write_amplification: f64,
    pages_per_block: usize,
) -> f64 {
    let queries = erases_per_host_write(write_amplification, pages_per_block);
    1.0 + (1.0 + queries) / write_read_cost_ratio
}

/// Steady state of a store that keeps each distinct content once, from [`zipf_dedup_steady_state`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ZipfContentSteadyState {
    /// Probability that no live page has the content of a write, which is the number of flash writes per host write
    /// after deduplication.
    pub dedup_miss_probability: f64,
    /// Number of distinct contents divided by the number of live logical pages.
    pub distinct_contents_per_page: f64,
}

/// Returns the steady state of deduplication over `M` live pages, if contents are drawn independently: content `i` of
/// `N` with the probability `p_i = c i^-a`.
///
/// `miss = sum p_i exp(-M p_i)` and `distinct = sum (1 - exp(-M p_i)) / M`, with the continuous `p(x) = C x^-a`, `C =
/// (1-a) / N^(1-a)`, so that only `contents_per_page = N/M` matters. Domain: `a` in `[0, 1)`, `N/M > 0`. Source:
/// Remap-SSD's content generator (Zhou et al., FAST 2021), read as independent draws.
pub fn zipf_dedup_steady_state(a: f64, contents_per_page: f64) -> ZipfContentSteadyState {
    assert!((0.0..1.0).contains(&a), "the continuous form needs an exponent in [0, 1), not {a}");
    assert!(contents_per_page > 0.0, "there is at least one content");
    let copies = (1.0 - a) / contents_per_page;
    // With t = x/N: M p = copies t^-a. The miss integral is smooth in s = t^(1-a), the distinct one in t.
    let miss = mean_over_unit_interval(|s| (-copies * s.powf(-a / (1.0 - a))).exp());
    let distinct = mean_over_unit_interval(|t| -(-copies * t.powf(-a)).exp_m1());
    ZipfContentSteadyState {
        dedup_miss_probability: miss,
        distinct_contents_per_page: distinct * contents_per_page,
    }
}

/// Returns the mean of `f` over the unit interval by the midpoint rule, which never evaluates the end points. For the
/// smooth functions of [`zipf_dedup_steady_state`] the error is far below 1e-6.
fn mean_over_unit_interval(f: impl Fn(f64) -> f64) -> f64 {
    /// Number of points at which the midpoint rule evaluates the function.
    const INTEGRATION_STEPS: u32 = 1 << 14;
    (0..INTEGRATION_STEPS).map(|i| f((f64::from(i) + 0.5) / f64::from(INTEGRATION_STEPS))).sum::<f64>()
        / f64::from(INTEGRATION_STEPS)
}

/// Returns the flash programs per host write with deduplication. Only misses are programmed, and the device holds fewer
/// valid pages because pages are shared.
///
/// The result is `miss A(u')`, where `A` is [`fifo_write_amplification`] (the large-block limit of greedy cleaning) and
/// `u' = u distinct` the utilisation that sharing leaves. `miss` and `distinct` are the two fields of `content`, and
/// `u` is the utilisation (logical / physical pages).
pub fn dedup_write_amplification(u: f64, content: ZipfContentSteadyState) -> f64 {
    content.dedup_miss_probability * fifo_write_amplification(u * content.distinct_contents_per_page)
}

/// Returns the page programs per host write, without GC, with delta compression: `1 - Pc + Pc r` (Delta-FTL, Wu and He,
/// `EuroSys` 2012).
///
/// `delta_share` is `Pc`, the share of writes stored as deltas. `pages_per_delta` is `r`, the flash pages per delta:
/// the mean ratio `Rc` of delta size to page size if packing were perfect, or a greater measured value, because packing
/// loses space (0.71 for `Rc = 0.50`).
pub fn delta_programs_per_host_write(delta_share: f64, pages_per_delta: f64) -> f64 {
    assert!((0.0..=1.0).contains(&delta_share), "a share lies in [0, 1], not {delta_share}");
    1.0 - delta_share + delta_share * pages_per_delta
}

/// Returns the host bytes that a device can take before its mean erase count reaches the endurance ("TBW", here in
/// bytes).
///
/// `endurance_cycles` is the rated program/erase cycles per block, and `blocks` counts all blocks that take part in
/// wear levelling. Assumes even wear; a device with uneven wear ends earlier.
pub fn host_bytes_until_worn(
    endurance_cycles: f64,
    blocks: u64,
    erases_per_host_write: f64,
    page_bytes: u64,
) -> f64 {
    assert!(erases_per_host_write > 0.0, "a device that never erases never wears out");
    endurance_cycles * blocks as f64 / erases_per_host_write * page_bytes as f64
}

/// Returns the years until a device is worn out at a constant rate of host bytes per day, in years of [`DAYS_PER_YEAR`]
/// days.
pub fn lifetime_years(bytes_until_worn: f64, host_bytes_per_day: f64) -> f64 {
    bytes_until_worn / host_bytes_per_day / DAYS_PER_YEAR
}

/// Returns the drive writes per day: the number of times that the exported capacity may be written each day of the
/// warranty.
pub fn drive_writes_per_day(bytes_until_worn: f64, exported_bytes: u64, warranty_years: f64) -> f64 {
    bytes_until_worn / exported_bytes as f64 / (warranty_years * DAYS_PER_YEAR)
}
