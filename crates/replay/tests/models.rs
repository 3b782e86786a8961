//! Compares the program with independent models of the papers' mechanisms.
//!
//! A model is written from the text of its paper alone, without a look at the code that it tests. It is plain, slow,
//! and short enough to be checked by eye. Model and program run the same requests. Where the paper leaves nothing open,
//! both must give exactly equal counts. Everywhere else, the test states its tolerance and the reason for it. If a test
//! fails, model or program misreads the paper, and the paper decides which.
//!
//! There is one file per mechanism. The price is a second implementation of each mechanism. It is small, because a
//! model has no persistence, no garbage collection except the one that it models, and no concern for speed.

#[path = "models/load.rs"]
mod load;

#[path = "models/collection.rs"]
mod collection;
#[path = "models/gecko.rs"]
mod gecko;
#[path = "models/lifetime.rs"]
mod lifetime;
#[path = "models/packing.rs"]
mod packing;
#[path = "models/recycling.rs"]
mod recycling;
#[path = "models/sharing.rs"]
mod sharing;
#[path = "models/translation.rs"]
mod translation;
