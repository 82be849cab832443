package amqp

// ProtoID is the protocol that a protocol header announces (2.2, 5.2, 5.3).
type ProtoID uint8

// The protocols.
const (
	ProtoAMQP ProtoID = 0
	ProtoTLS  ProtoID = 2
	ProtoSASL ProtoID = 3
)

// ProtoHeaderSize is the size of a protocol header in bytes.
const ProtoHeaderSize = 8

// ProtoHeader is what a connection and each of its layers begins with. Whether ID and version will do is for the caller to
// say, who answers an unsupported one with a header of its own (2.2).
type ProtoHeader struct {
	ID                     ProtoID
	Major, Minor, Revision uint8
}

// Supported says whether h is AMQP or SASL in version 1.0.0.
func (h ProtoHeader) Supported() bool {
	return (h.ID == ProtoAMQP || h.ID == ProtoSASL) && h.Major == 1 && h.Minor == 0 && h.Revision == 0
}

// ParseProtoHeader reads the header that src begins with. The error is ErrShort if src is too short and so far right, a
// *DecodeError with ErrCondFramingError as soon as it isn't AMQP's.
func ParseProtoHeader(src []byte) (ProtoHeader, error) {
	const magic = "AMQP"
	for i := 0; i < len(magic) && i < len(src); i++ {
		if src[i] != magic[i] {
			return ProtoHeader{}, &DecodeError{Condition: ErrCondFramingError, Offset: i, What: "not an AMQP protocol header"}
		}
	}
	if len(src) < ProtoHeaderSize {
		return ProtoHeader{}, ErrShort
	}
	return ProtoHeader{ID: ProtoID(src[4]), Major: src[5], Minor: src[6], Revision: src[7]}, nil
}

// AppendProtoHeader appends the header of id in version 1.0.0.
func AppendProtoHeader(dst []byte, id ProtoID) []byte {
	return append(dst, 'A', 'M', 'Q', 'P', byte(id), 1, 0, 0)
}
