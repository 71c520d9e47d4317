package share

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Key names an export. The tag identifies the socket of its process, and the secret authorizes an import. Keys are
// comparable.
type Key struct {
	tag    uint32 // 20 bits
	place  uint32 // 28 bits; see Options.Place
	short  bool   // the secret has 44 bits, in its first bytes
	secret [24]byte
}

const (
	tagBits   = 20
	shortBits = 64 - tagBits

	textPrefix = "rw-"
	textLen    = len(textPrefix) + 5 + 1 + 48
	placeLen   = 7 // digits of a place at the end of a text

	blockMagic = "RWKEY1\x00\x00" // starts a key in a block of bytes; tag, secret and a checksum follow
	blockLen   = len(blockMagic) + 4 + 24 + 4
)

// newKey returns a random key.
func newKey(tag uint32, short bool) Key {
	k := Key{tag: tag, short: short}
	rand.Read(k.secret[:]) //nolint:errcheck // it never fails
	if short {
		n := binary.LittleEndian.Uint64(k.secret[:]) >> tagBits
		k.secret = [24]byte{}
		binary.LittleEndian.PutUint64(k.secret[:], n)
	}
	return k
}

// Text returns the key as text without blanks: 57 letters, digits and dashes, or 64 with a place.
func (k Key) Text() string {
	text := fmt.Sprintf("%s%05x-%s", textPrefix, k.tag, hex.EncodeToString(k.secret[:]))
	if k.place != 0 {
		text += fmt.Sprintf("%0*x", placeLen, k.place)
	}
	return text
}

// Place returns Options.Place of the export.
func (k Key) Place() uint32 { return k.place }

// Far returns a secret that identifies the key to processes of other servers. The key cannot be derived from it.
func (k Key) Far(kind Kind) (s [24]byte) {
	m := hmac.New(sha256.New, k.secret[:])
	m.Write([]byte{'f', 'a', 'r', byte(kind)})
	copy(s[:], m.Sum(nil))
	return s
}

// ParseText parses a result of Text; false if s is not one.
func ParseText(s string) (Key, bool) {
	var k Key
	whole := s
	if len(s) == textLen+placeLen {
		n, err := strconv.ParseUint(s[textLen:], 16, 32)
		if err != nil {
			return Key{}, false
		}
		s, k.place = s[:textLen], uint32(n)
	}
	tag, rest, ok := strings.Cut(strings.TrimPrefix(s, textPrefix), "-")
	if !ok || len(s) != textLen || !strings.HasPrefix(s, textPrefix) || len(tag) != 5 {
		return Key{}, false
	}
	t, err := hex.DecodeString("000" + tag)
	if err != nil {
		return Key{}, false
	}
	k.tag = binary.BigEndian.Uint32(t)
	if _, err := hex.Decode(k.secret[:], []byte(rest)); err != nil || k.Text() != whole {
		return Key{}, false
	}
	return k, true
}

// Number returns a short key as a number, which is never 0.
func (k Key) Number() uint64 {
	return uint64(k.tag)<<shortBits | binary.LittleEndian.Uint64(k.secret[:])
}

// FromNumber returns the key of a number.
func FromNumber(n uint64) Key {
	k := Key{tag: uint32(n >> shortBits), short: true}
	binary.LittleEndian.PutUint64(k.secret[:], n&(1<<shortBits-1))
	return k
}

// Block writes the key to a block of at least 40 bytes, and clears the rest.
func (k Key) Block(b []byte) {
	clear(b)
	n := copy(b, blockMagic)
	binary.LittleEndian.PutUint32(b[n:], k.tag)
	copy(b[n+4:], k.secret[:])
	binary.LittleEndian.PutUint32(b[blockLen-4:], crc32.ChecksumIEEE(b[:blockLen-4]))
}

// FromBlock parses a block from Block; false if b is not one.
func FromBlock(b []byte) (Key, bool) {
	if len(b) < blockLen || string(b[:len(blockMagic)]) != blockMagic ||
		binary.LittleEndian.Uint32(b[blockLen-4:]) != crc32.ChecksumIEEE(b[:blockLen-4]) {
		return Key{}, false
	}
	k := Key{tag: binary.LittleEndian.Uint32(b[len(blockMagic):])}
	copy(k.secret[:], b[len(blockMagic)+4:])
	return k, k.tag < 1<<tagBits
}

// String omits the secret: keys may get into logs.
func (k Key) String() string { return fmt.Sprintf("%s%05x-…", textPrefix, k.tag) }

// id returns the hash that an importer sends: only a process that knows the key can compute it, and the secret cannot
// be derived from it.
func (k Key) id(kind Kind) [32]byte {
	m := hmac.New(sha256.New, k.secret[:])
	m.Write([]byte{'i', 'd', byte(kind), bit(k.short)})
	return [32]byte(m.Sum(nil))
}

// proof returns a MAC which proves that the sender of reply knows the key and answers the request with this nonce.
func (k Key) proof(nonce [16]byte, reply []byte) [32]byte {
	m := hmac.New(sha256.New, k.secret[:])
	m.Write([]byte{'a', 'n', bit(k.short)})
	m.Write(nonce[:])
	m.Write(reply)
	return [32]byte(m.Sum(nil))
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
