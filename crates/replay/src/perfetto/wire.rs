//! The wire format of protocol buffers, as far as a trace needs it: fields that are numbers, texts or messages.

/// A protobuf message under construction.
#[derive(Clone, Default, Debug)]
pub(super) struct ProtobufMessage(Vec<u8>);

/// How the value of a protobuf field is stored.
#[derive(Clone, Copy)]
enum WireType {
    /// Whole number in 1 to 10 bytes, seven bits per byte.
    Varint = 0,
    /// Eight bytes, the lowest byte first.
    Fixed64 = 1,
    /// Length as a varint, followed by that many bytes: a text or a message.
    Bytes = 2,
}

impl ProtobufMessage {
    /// Appends a number as a protobuf varint: seven bits per byte, the lowest bits first; the high bit is set in all
    /// bytes but the last.
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Appends the tag of a protobuf field: the number of the field, and how its value is stored.
    fn put_tag(&mut self, field: u32, wire_type: WireType) {
        self.put_varint(u64::from(field) << 3 | wire_type as u64);
    }

    /// Appends a field of a type that is stored as a varint: an unsigned integer or an enumeration.
    pub(super) fn with_varint(mut self, field: u32, value: u64) -> Self {
        self.put_tag(field, WireType::Varint);
        self.put_varint(value);
        self
    }

    /// Appends a protobuf field of type `fixed64`.
    pub(super) fn with_fixed64(mut self, field: u32, value: u64) -> Self {
        self.put_tag(field, WireType::Fixed64);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a protobuf field of type `double`.
    pub(super) fn with_double(self, field: u32, value: f64) -> Self {
        self.with_fixed64(field, value.to_bits())
    }

    /// Appends a protobuf field of type `string`.
    pub(super) fn with_string(self, field: u32, text: &str) -> Self {
        self.with_bytes(field, text.as_bytes())
    }

    /// Appends a protobuf field that is a message itself.
    pub(super) fn with_message(self, field: u32, message: &Self) -> Self {
        self.with_bytes(field, &message.0)
    }

    /// Appends a protobuf field that is stored as its length and its bytes.
    fn with_bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.put_tag(field, WireType::Bytes);
        self.put_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Returns the bytes of the encoded protobuf message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Whether the message has no field yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::ProtobufMessage;

    /// Protobuf fields are encoded as in the examples of the format's public description.
    #[test]
    fn protobuf_fields_are_encoded_as_the_format_defines() {
        assert_eq!(ProtobufMessage::default().with_varint(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(ProtobufMessage::default().with_string(2, "testing").into_bytes(), b"\x12\x07testing");
        let inner = ProtobufMessage::default().with_varint(1, 150);
        assert_eq!(
            ProtobufMessage::default().with_message(3, &inner).into_bytes(),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        assert_eq!(
            ProtobufMessage::default().with_double(1, 1.0).into_bytes(),
            [9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]
        );
        assert_eq!(ProtobufMessage::default().with_varint(47, u64::MAX).into_bytes().len(), 12);
    }
}
