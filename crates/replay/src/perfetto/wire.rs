//! The wire format of protocol buffers, as far as a trace needs it: fields that are numbers, texts or messages.

/// A message under construction.
#[derive(Clone, Default, Debug)]
pub(super) struct Message(Vec<u8>);

/// How the value of a field is stored.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

impl Message {
    /// Appends seven bits per byte, the lowest first; the high bit is set in all bytes but the last.
    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire_type: WireType) {
        self.put(u64::from(field) << 3 | wire_type as u64);
    }

    /// Appends a field of a type that is stored as a varint: an unsigned integer or an enumeration.
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.tag(field, WireType::Varint);
        self.put(value);
        self
    }

    /// Appends a field of type `fixed64`.
    pub(super) fn fixed(mut self, field: u32, value: u64) -> Self {
        self.tag(field, WireType::Fixed64);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a field of type `double`.
    pub(super) fn double(self, field: u32, value: f64) -> Self {
        self.fixed(field, value.to_bits())
    }

    /// Appends a field of type `string`.
    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// Appends a field that is a message itself.
    pub(super) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.tag(field, WireType::Bytes);
        self.put(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Returns the encoded message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    /// The examples of the format's public description.
    #[test]
    fn fields_are_encoded_as_the_format_says() {
        assert_eq!(Message::default().number(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").into_bytes(), b"\x12\x07testing");
        let inner = Message::default().number(1, 150);
        assert_eq!(Message::default().message(3, &inner).into_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().double(1, 1.0).into_bytes(), [9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(Message::default().number(47, u64::MAX).into_bytes().len(), 12);
    }
}
