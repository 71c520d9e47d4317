package pod

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/big"
	"time"
)

// credentials returns a TLS configuration that proves the pod's key: both sides have the same Ed25519 key, derived from
// it, and accept no other. TLS 1.3 does the rest: it encrypts, rejects changed or replayed data, and bounds what it
// reads.
func (c *Config) credentials() (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, c.key, nil, "ropeway pod 1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ropeway pod"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	cert, err := x509.CreateCertificate(rand.Reader, form, form, public, private)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: private}},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // names and dates have no meaning: VerifyConnection compares the key
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 1 && public.Equal(s.PeerCertificates[0].PublicKey) {
				return nil
			}
			return errKey
		},
	}, nil
}

var errKey = errors.New("pod: the other side has another key")

// Handle names memory that a process of the pod exports.
type Handle struct {
	Pod    uint32
	Server uint16
	Port   uint16
	Secret [24]byte
}

// Parts of an encoded handle.
const (
	handleMagic = "RWPOD1\x00\x00"
	HandleSize  = len(handleMagic) + 4 + 2 + 2 + 24 + 4 // bytes
)

// Put writes the handle to the first HandleSize bytes of b.
func (h *Handle) Put(b []byte) {
	n := copy(b, handleMagic)
	binary.LittleEndian.PutUint32(b[n:], h.Pod)
	binary.LittleEndian.PutUint16(b[n+4:], h.Server)
	binary.LittleEndian.PutUint16(b[n+6:], h.Port)
	copy(b[n+8:], h.Secret[:])
	binary.LittleEndian.PutUint32(b[HandleSize-4:], crc32.ChecksumIEEE(b[:HandleSize-4]))
}

// ParseHandle decodes a handle that Put has written; false if b is not one.
func ParseHandle(b []byte) (h Handle, ok bool) {
	if len(b) < HandleSize || string(b[:len(handleMagic)]) != handleMagic ||
		binary.LittleEndian.Uint32(b[HandleSize-4:]) != crc32.ChecksumIEEE(b[:HandleSize-4]) {
		return h, false
	}
	n := len(handleMagic)
	h.Pod = binary.LittleEndian.Uint32(b[n:])
	h.Server = binary.LittleEndian.Uint16(b[n+4:])
	h.Port = binary.LittleEndian.Uint16(b[n+6:])
	copy(h.Secret[:], b[n+8:])
	return h, true
}
