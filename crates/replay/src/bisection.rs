//! Solves equations of one unknown by bisection.

/// Returns the number between `low` and `high` up to which `is_below` is true, after `steps` halvings of that range.
pub(crate) fn bisect(mut low: f64, mut high: f64, steps: u32, is_below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..steps {
        let middle = f64::midpoint(low, high);
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}
