//! Splits a line of a text trace into fields, parses numbers, and reports where in the line an error is.
//!
//! All text formats use the cursor [`Fields`] of this module, so that numbers, overflow and error positions are handled
//! alike. If the separator is a blank, any run of blanks and tabs separates two fields. Any other separator ends
//! exactly one field.

use crate::error::ParseRefusal;

/// A cursor over the comma-separated fields of a line.
pub(crate) type CommaSeparatedFields<'a> = Fields<'a, b','>;
/// A cursor over the fields of a line that are separated by runs of blanks.
pub(crate) type BlankSeparatedFields<'a> = Fields<'a, b' '>;
/// A cursor over the tab-separated fields of a line.
pub(crate) type TabSeparatedFields<'a> = Fields<'a, b'\t'>;

/// A cursor over the fields of a line; fields are read from its left or its right end.
pub(crate) struct Fields<'a, const SEPARATOR: u8> {
    /// Bytes of the line without its line end.
    line: &'a [u8],
    /// Index in `line` of the first byte that was not read yet. It grows as fields are read from the left end.
    next_byte_index: usize,
    /// Index in `line` after the last byte that was not read yet. It falls as fields are read from the right end.
    end_byte_index: usize,
}

/// One field of a line, with its byte offset in the line.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    /// Bytes of the field.
    pub text: &'a [u8],
    /// Offset of the first byte of the field in its line.
    pub byte_offset: usize,
}

impl<'a, const SEPARATOR: u8> Fields<'a, SEPARATOR> {
    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self { line, next_byte_index: 0, end_byte_index: line.len() }
    }

    /// Returns whether the byte ends a field: `SEPARATOR`, or also a tab if `SEPARATOR` is a blank.
    #[inline]
    fn is_separator(byte: u8) -> bool {
        byte == SEPARATOR || (SEPARATOR == b' ' && byte == b'\t')
    }

    /// Skips separators before the next field if the fields are separated by blanks.
    #[inline]
    fn skip_blanks(&mut self) {
        if SEPARATOR == b' ' {
            while self.next_byte_index < self.end_byte_index
                && Self::is_separator(self.line[self.next_byte_index])
            {
                self.next_byte_index += 1;
            }
        }
    }

    /// Takes the next field of the line from the left; it is empty at the end of the line.
    #[inline]
    pub(crate) fn next_field(&mut self) -> Field<'a> {
        self.skip_blanks();
        let byte_offset = self.next_byte_index.min(self.end_byte_index);
        let rest = &self.line[byte_offset..self.end_byte_index];
        let len = rest.iter().position(|&byte| Self::is_separator(byte)).unwrap_or(rest.len());
        self.next_byte_index = byte_offset + len + 1;
        Field { text: &rest[..len], byte_offset }
    }

    /// Takes the next field of the line from the right; it is empty when no field is left.
    pub(crate) fn next_field_from_end(&mut self) -> Field<'a> {
        if SEPARATOR == b' ' {
            while self.end_byte_index > self.next_byte_index
                && Self::is_separator(self.line[self.end_byte_index - 1])
            {
                self.end_byte_index -= 1;
            }
        }
        let rest = &self.line[self.next_byte_index.min(self.end_byte_index)..self.end_byte_index];
        let len = rest.iter().rev().position(|&byte| Self::is_separator(byte)).unwrap_or(rest.len());
        let byte_offset = self.end_byte_index - len;
        let field = Field { text: &self.line[byte_offset..self.end_byte_index], byte_offset };
        self.end_byte_index = byte_offset.saturating_sub(1).max(self.next_byte_index.min(byte_offset));
        field
    }

    /// Takes the next field of the line and parses it as an unsigned number, in one pass over the digits.
    #[inline]
    pub(crate) fn next_number(&mut self, requirement: &'static str) -> Result<u64, ParseRefusal> {
        self.skip_blanks();
        let start = self.next_byte_index.min(self.end_byte_index);
        let rest = &self.line[start..self.end_byte_index];
        let mut value = 0_u64;
        let mut len = 0;
        while len < rest.len() && rest[len].is_ascii_digit() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(rest[len] - b'0'));
            len += 1;
        }
        let ends = rest.get(len).is_none_or(|&byte| Self::is_separator(byte));
        // 19 digits always fit into 64 bits, so only longer numbers need the parser that checks for overflow.
        if len == 0 || len > 19 || !ends {
            return self.next_field().parse_number(requirement);
        }
        self.next_byte_index = start + len + 1;
        Ok(value)
    }

    /// Takes the next field of the line and parses it as an unsigned number of at most 32 bits.
    #[inline]
    pub(crate) fn next_u32(&mut self, requirement: &'static str) -> Result<u32, ParseRefusal> {
        let byte_offset = self.next_byte_index;
        self.next_number(requirement)?.try_into().map_err(|_| ParseRefusal { byte_offset, requirement })
    }

    /// Takes the next field of the line; an error if it is empty.
    #[inline]
    pub(crate) fn next_word(&mut self, requirement: &'static str) -> Result<Field<'a>, ParseRefusal> {
        let field = self.next_field();
        if field.text.is_empty() { field.refuse(requirement) } else { Ok(field) }
    }

    /// Returns an error if the line has a further field; `requirement` says what the line must have instead.
    #[inline]
    pub(crate) fn require_end(&mut self, requirement: &'static str) -> Result<(), ParseRefusal> {
        self.skip_blanks();
        if self.next_byte_index < self.end_byte_index {
            Err(ParseRefusal { byte_offset: self.next_byte_index, requirement })
        } else {
            Ok(())
        }
    }
}

impl<'a> Field<'a> {
    /// Returns an error at this field's position in the line: `requirement` says what the line must have instead.
    pub(crate) fn refuse<T>(self, requirement: &'static str) -> Result<T, ParseRefusal> {
        Err(ParseRefusal { byte_offset: self.byte_offset, requirement })
    }

    /// Parses the field as an unsigned decimal number of at most 64 bits; a sign is an error.
    pub(crate) fn parse_number(self, requirement: &'static str) -> Result<u64, ParseRefusal> {
        let digits = !self.text.is_empty() && self.text.iter().all(u8::is_ascii_digit);
        let value = std::str::from_utf8(self.text).ok().filter(|_| digits).and_then(|text| text.parse().ok());
        value.ok_or(ParseRefusal { byte_offset: self.byte_offset, requirement })
    }

    /// Parses the field as an unsigned number of at most 32 bits.
    pub(crate) fn parse_u32(self, requirement: &'static str) -> Result<u32, ParseRefusal> {
        self.parse_number(requirement)?
            .try_into()
            .map_err(|_| ParseRefusal { byte_offset: self.byte_offset, requirement })
    }

    /// Parses the field as a decimal number and returns it times 10^`digits`. Decimal places after the first `digits`
    /// ones are dropped.
    pub(crate) fn parse_decimal(self, digits: u32, requirement: &'static str) -> Result<u64, ParseRefusal> {
        let (whole, fraction) = self.split_at(b'.');
        let mut value = Some(whole.parse_number(requirement)?);
        if !fraction.text.iter().all(u8::is_ascii_digit) {
            return self.refuse(requirement);
        }
        for place in 0..digits as usize {
            let digit = fraction.text.get(place).map_or(0, |byte| u64::from(byte - b'0'));
            value = value.and_then(|value| value.checked_mul(10)?.checked_add(digit));
        }
        value.ok_or(ParseRefusal { byte_offset: self.byte_offset, requirement })
    }

    /// Splits the field at the first `separator` into the parts before and after it. The second part is empty if there
    /// is no separator.
    pub(crate) fn split_at(self, separator: u8) -> (Field<'a>, Field<'a>) {
        let len = self.text.iter().position(|&byte| byte == separator).unwrap_or(self.text.len());
        let after = (len + 1).min(self.text.len());
        (
            Field { text: &self.text[..len], byte_offset: self.byte_offset },
            Field { text: &self.text[after..], byte_offset: self.byte_offset + after },
        )
    }

    /// Returns the rest of the field after its first `skip` bytes.
    pub(crate) fn skip_bytes(self, skip: usize) -> Field<'a> {
        let skip = skip.min(self.text.len());
        Field { text: &self.text[skip..], byte_offset: self.byte_offset + skip }
    }

    /// Parses the field as a hexadecimal number of at most 16 digits.
    pub(crate) fn parse_hex(self, requirement: &'static str) -> Result<u64, ParseRefusal> {
        let digits = self.text.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(self.text).ok().filter(|_| digits);
        text.and_then(|text| u64::from_str_radix(text, 16).ok())
            .ok_or(ParseRefusal { byte_offset: self.byte_offset, requirement })
    }
}

impl Field<'_> {
    /// Parses the field as a number of 512-byte sectors and returns it in bytes.
    #[inline]
    pub(crate) fn parse_sectors_as_bytes(self, requirement: &'static str) -> Result<u64, ParseRefusal> {
        checked_product(self.parse_number(requirement)?, crate::SECTOR_BYTES, self.byte_offset, requirement)
    }
}

/// Returns `a * b`. If the product overflows, returns an error at byte `byte_offset` of the line; `requirement` says
/// which numbers are accepted.
#[inline]
pub(crate) fn checked_product(
    a: u64,
    b: u64,
    byte_offset: usize,
    requirement: &'static str,
) -> Result<u64, ParseRefusal> {
    a.checked_mul(b).ok_or(ParseRefusal { byte_offset, requirement })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_taken_from_both_ends_of_a_line_keep_their_offsets() {
        let mut fields = BlankSeparatedFields::new(b" 12  a b\t7 ");
        assert_eq!(fields.next_number("n"), Ok(12));
        let last = fields.next_field_from_end();
        assert_eq!((last.text, last.byte_offset), (&b"7"[..], 9));
        assert_eq!(fields.next_field().text, b"a");
        assert_eq!(fields.next_field_from_end().text, b"b");
        assert!(fields.next_field_from_end().text.is_empty() && fields.next_field().text.is_empty());
    }

    #[test]
    fn number_fields_refuse_signs_letters_and_overflow() {
        for text in ["", "-1", "+1", "1x", "18446744073709551616"] {
            assert_eq!(
                CommaSeparatedFields::new(text.as_bytes()).next_number("n"),
                Err(ParseRefusal { byte_offset: 0, requirement: "n" }),
                "{text}"
            );
        }
        assert_eq!(CommaSeparatedFields::new(b"18446744073709551615").next_number("n"), Ok(u64::MAX));
        assert_eq!(CommaSeparatedFields::new(b"00000000000000000000007,").next_number("n"), Ok(7));
    }

    #[test]
    fn decimal_fields_are_scaled_and_truncated() {
        let decimal =
            |text: &'static str| Field { text: text.as_bytes(), byte_offset: 3 }.parse_decimal(3, "t");
        assert_eq!(decimal("1.5"), Ok(1500));
        assert_eq!(decimal("2"), Ok(2000));
        assert_eq!(decimal("0.0019"), Ok(1));
        assert_eq!(decimal("1.2.3"), Err(ParseRefusal { byte_offset: 3, requirement: "t" }));
        assert_eq!(decimal("99999999999999999999"), Err(ParseRefusal { byte_offset: 3, requirement: "t" }));
    }
}
