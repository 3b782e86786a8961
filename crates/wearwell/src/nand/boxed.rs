//! A medium behind a pointer, so that one engine runs on media that are chosen while the program runs.
//!
//! Every operation of flash costs an indirect call then. In return the engine is compiled once for all of them.

use super::{
    BlockId, ConsecutiveCopies, ConsecutivePrograms, Content, Lpn, Nand, NandError, Oob, PageDataWord, Ppn,
};

impl<N: Nand + ?Sized> Nand for Box<N> {
    delegate_queries!(self => **self);
    fn program(&mut self, ppn: Ppn, oob: Oob, content: Content<'_>) -> Result<(), NandError> {
        (**self).program(ppn, oob, content)
    }
    fn program_page_marked_lost(&mut self, ppn: Ppn, oob: Oob, spare: &[u8]) -> Result<(), NandError> {
        (**self).program_page_marked_lost(ppn, oob, spare)
    }
    fn read_spare(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        (**self).read_spare(ppn, into)
    }
    fn read(&mut self, ppn: Ppn, into: &mut [u8]) -> Result<Oob, NandError> {
        (**self).read(ppn, into)
    }
    fn read_pages(&mut self, pages: &[Ppn], into: &mut [u8]) -> (usize, Result<(), NandError>) {
        (**self).read_pages(pages, into)
    }
    fn read_page_in_place(
        &mut self,
        ppn: Ppn,
        page: &mut [u8],
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<(), NandError> {
        (**self).read_page_in_place(ppn, page, look)
    }
    fn read_words(&mut self, ppn: Ppn, words: &mut [PageDataWord]) -> Result<(), NandError> {
        (**self).read_words(ppn, words)
    }
    fn program_changed_page(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        original_ppn: Ppn,
        words: &[PageDataWord],
    ) -> Result<(), NandError> {
        (**self).program_changed_page(ppn, oob, original_ppn, words)
    }
    fn zeroed_page_buffer(&self) -> Vec<u8> {
        (**self).zeroed_page_buffer()
    }
    fn program_consecutive_pages(&mut self, run: ConsecutivePrograms<'_>) -> (usize, Result<(), NandError>) {
        (**self).program_consecutive_pages(run)
    }
    fn copy(&mut self, run: ConsecutiveCopies<'_>, page: &mut [u8]) -> (usize, Result<(), NandError>) {
        (**self).copy(run, page)
    }
    fn probe_page(&mut self, ppn: Ppn) -> Result<Option<Oob>, NandError> {
        (**self).probe_page(ppn)
    }
    fn read_spares_and_retain_readable(&mut self, pages: &mut Vec<Ppn>) -> Result<(), NandError> {
        (**self).read_spares_and_retain_readable(pages)
    }
    fn erase(&mut self, block: BlockId) -> Result<(), NandError> {
        (**self).erase(block)
    }
    fn oob_owners(&self, pages: &[Ppn], into: &mut Vec<Lpn>) {
        (**self).oob_owners(pages, into);
    }
    fn prefetch_block(&self, block: BlockId) {
        (**self).prefetch_block(block);
    }
    fn store_nvram_word(&mut self, index: usize, word: u64) -> Result<(), NandError> {
        (**self).store_nvram_word(index, word)
    }
}
