//! Splits a line of a text trace into fields, parses numbers, and reports where in the line an error is.
//!
//! All text formats parse through this cursor, so that numbers, overflow and error positions are treated alike. If the
//! separator is a blank, any run of blanks and tabs separates two fields. Any other separator ends exactly one field.

use crate::error::Bad;

/// A cursor over the comma-separated fields of a line.
pub(crate) type Commas<'a> = Fields<'a, b','>;
/// A cursor over the fields of a line that are separated by runs of blanks.
pub(crate) type Blanks<'a> = Fields<'a, b' '>;
/// A cursor over the tab-separated fields of a line.
pub(crate) type Tabs<'a> = Fields<'a, b'\t'>;

/// A cursor over the fields of a line; fields are taken from its left or its right end.
pub(crate) struct Fields<'a, const SEPARATOR: u8> {
    line: &'a [u8],
    next: usize,
    end: usize,
}

/// One field of a line, with its byte offset in the line.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub text: &'a [u8],
    pub at: usize,
}

impl<'a, const SEPARATOR: u8> Fields<'a, SEPARATOR> {
    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { line, next: 0, end: line.len() }
    }

    #[inline]
    fn separates(byte: u8) -> bool {
        byte == SEPARATOR || (SEPARATOR == b' ' && byte == b'\t')
    }

    #[inline]
    fn skip_blanks(&mut self) {
        if SEPARATOR == b' ' {
            while self.next < self.end && Self::separates(self.line[self.next]) {
                self.next += 1;
            }
        }
    }

    /// Takes the next field of the line from the left; it is empty at the end of the line.
    #[inline]
    pub(crate) fn field(&mut self) -> Field<'a> {
        self.skip_blanks();
        let at = self.next.min(self.end);
        let rest = &self.line[at..self.end];
        let len = rest.iter().position(|&byte| Self::separates(byte)).unwrap_or(rest.len());
        self.next = at + len + 1;
        Field { text: &rest[..len], at }
    }

    /// Takes the next field of the line from the right; it is empty when no field is left.
    pub(crate) fn last(&mut self) -> Field<'a> {
        if SEPARATOR == b' ' {
            while self.end > self.next && Self::separates(self.line[self.end - 1]) {
                self.end -= 1;
            }
        }
        let rest = &self.line[self.next.min(self.end)..self.end];
        let len = rest.iter().rev().position(|&byte| Self::separates(byte)).unwrap_or(rest.len());
        let at = self.end - len;
        let field = Field { text: &self.line[at..self.end], at };
        self.end = at.saturating_sub(1).max(self.next.min(at));
        field
    }

    /// Takes the next field of the line and parses it as an unsigned number, in one pass over the digits.
    #[inline]
    pub(crate) fn number(&mut self, expected: &'static str) -> Result<u64, Bad> {
        self.skip_blanks();
        let start = self.next.min(self.end);
        let rest = &self.line[start..self.end];
        let mut value = 0_u64;
        let mut len = 0;
        while len < rest.len() && rest[len].is_ascii_digit() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(rest[len] - b'0'));
            len += 1;
        }
        let ends = rest.get(len).is_none_or(|&byte| Self::separates(byte));
        // 19 digits always fit into 64 bits, so only longer numbers need the parser that checks for overflow.
        if len == 0 || len > 19 || !ends {
            return self.field().number(expected);
        }
        self.next = start + len + 1;
        Ok(value)
    }

    /// Takes the next field of the line and parses it as an unsigned number of at most 32 bits.
    #[inline]
    pub(crate) fn small(&mut self, expected: &'static str) -> Result<u32, Bad> {
        let at = self.next;
        self.number(expected)?.try_into().map_err(|_| Bad { at, expected })
    }

    /// Takes the next field of the line; an error if it is empty.
    #[inline]
    pub(crate) fn word(&mut self, expected: &'static str) -> Result<Field<'a>, Bad> {
        let field = self.field();
        if field.text.is_empty() { field.bad(expected) } else { Ok(field) }
    }

    /// Checks that the line has no further field; otherwise an error.
    #[inline]
    pub(crate) fn finish(&mut self, expected: &'static str) -> Result<(), Bad> {
        self.skip_blanks();
        if self.next < self.end { Err(Bad { at: self.next, expected }) } else { Ok(()) }
    }
}

impl<'a> Field<'a> {
    /// Returns an error at this field's position in the line: `expected` describes what should be there.
    pub(crate) fn bad<T>(self, expected: &'static str) -> Result<T, Bad> {
        Err(Bad { at: self.at, expected })
    }

    /// Parses the field as an unsigned number without a sign.
    pub(crate) fn number(self, expected: &'static str) -> Result<u64, Bad> {
        let digits = !self.text.is_empty() && self.text.iter().all(u8::is_ascii_digit);
        let value = std::str::from_utf8(self.text).ok().filter(|_| digits).and_then(|text| text.parse().ok());
        value.ok_or(Bad { at: self.at, expected })
    }

    /// Parses the field as an unsigned number of at most 32 bits.
    pub(crate) fn small(self, expected: &'static str) -> Result<u32, Bad> {
        self.number(expected)?.try_into().map_err(|_| Bad { at: self.at, expected })
    }

    /// Parses the field as a decimal number and returns it times 10^`digits`; further decimal places are truncated.
    pub(crate) fn decimal(self, digits: u32, expected: &'static str) -> Result<u64, Bad> {
        let (whole, fraction) = self.split(b'.');
        let mut value = Some(whole.number(expected)?);
        if !fraction.text.iter().all(u8::is_ascii_digit) {
            return self.bad(expected);
        }
        for place in 0..digits as usize {
            let digit = fraction.text.get(place).map_or(0, |byte| u64::from(byte - b'0'));
            value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit));
        }
        value.ok_or(Bad { at: self.at, expected })
    }

    /// Splits the field at the first `separator` into the parts before and after it. The second part is empty if there
    /// is no separator.
    pub(crate) fn split(self, separator: u8) -> (Field<'a>, Field<'a>) {
        let len = self.text.iter().position(|&byte| byte == separator).unwrap_or(self.text.len());
        let after = (len + 1).min(self.text.len());
        (
            Field { text: &self.text[..len], at: self.at },
            Field { text: &self.text[after..], at: self.at + after },
        )
    }

    /// Returns the rest of the field after its first `skip` bytes.
    pub(crate) fn after(self, skip: usize) -> Field<'a> {
        let skip = skip.min(self.text.len());
        Field { text: &self.text[skip..], at: self.at + skip }
    }

    /// Parses the field as a hexadecimal number of at most 16 digits.
    pub(crate) fn hex(self, expected: &'static str) -> Result<u64, Bad> {
        let digits = self.text.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(self.text).ok().filter(|_| digits);
        text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(Bad { at: self.at, expected })
    }
}

impl Field<'_> {
    /// Parses the field as a number of 512-byte sectors and returns it in bytes.
    #[inline]
    pub(crate) fn sectors(self, expected: &'static str) -> Result<u64, Bad> {
        times(self.number(expected)?, crate::SECTOR_BYTES, self.at, expected)
    }
}

/// Returns `a * b`; an error at byte `at` of the line if the product overflows.
#[inline]
pub(crate) fn times(a: u64, b: u64, at: usize, expected: &'static str) -> Result<u64, Bad> {
    a.checked_mul(b).ok_or(Bad { at, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_from_both_ends_keep_their_places() {
        let mut fields = Blanks::new(b" 12  a b\t7 ");
        assert_eq!(fields.number("n"), Ok(12));
        let last = fields.last();
        assert_eq!((last.text, last.at), (&b"7"[..], 9));
        assert_eq!(fields.field().text, b"a");
        assert_eq!(fields.last().text, b"b");
        assert!(fields.last().text.is_empty() && fields.field().text.is_empty());
    }

    #[test]
    fn numbers_refuse_signs_letters_and_overflow() {
        for text in ["", "-1", "+1", "1x", "18446744073709551616"] {
            assert_eq!(Commas::new(text.as_bytes()).number("n"), Err(Bad { at: 0, expected: "n" }), "{text}");
        }
        assert_eq!(Commas::new(b"18446744073709551615").number("n"), Ok(u64::MAX));
        assert_eq!(Commas::new(b"00000000000000000000007,").number("n"), Ok(7));
    }

    #[test]
    fn decimals_scale_and_cut() {
        let decimal = |text: &'static str| Field { text: text.as_bytes(), at: 3 }.decimal(3, "t");
        assert_eq!(decimal("1.5"), Ok(1500));
        assert_eq!(decimal("2"), Ok(2000));
        assert_eq!(decimal("0.0019"), Ok(1));
        assert_eq!(decimal("1.2.3"), Err(Bad { at: 3, expected: "t" }));
        assert_eq!(decimal("99999999999999999999"), Err(Bad { at: 3, expected: "t" }));
    }
}
