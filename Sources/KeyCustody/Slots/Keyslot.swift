import StorePlatform

/// One way to open a store: the master key, wrapped by a key that is derived from a secret.
///
/// It contains no secret. The bytes on disk are described in `Docs/Formats/Sidecar.md`.
package struct Keyslot: Hashable, Sendable, Identifiable {
    /// The source of a slot's secret.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A text that a person remembers, whatever the way by which it reaches the program.
        case passphrase
        /// A file of 32 random bytes.
        case keyFile = "key-file"
        /// The output of a program.
        case command
        /// A credential that systemd passes to a service.
        case credential
        /// A random key that was printed and stored away.
        case recovery
        /// A plugin (``TokenDevice``).
        case plugin
        /// A token that is reached by PKCS#11.
        case pkcs11
        /// The TPM of a machine.
        case tpm2

        /// Whether every secret of this kind is a random key of full strength that a key source gives.
        var isAlwaysRandom: Bool { self == .keyFile || self == .recovery }

        /// Whether a device keeps the secret, and the slot has a ``SlotToken``.
        package var isToken: Bool { self == .plugin || self == .pkcs11 || self == .tpm2 }

        /// Whether a secret of this kind may be derived in this way. A guessable secret is never derived by HKDF alone,
        /// and a random one is never stretched.
        func allows(_ derivation: SlotDerivation) -> Bool {
            switch self {
            case .passphrase: derivation.isMemoryHard
            case .keyFile, .recovery, .plugin, .pkcs11, .tpm2: !derivation.isMemoryHard
            case .command, .credential: true
            }
        }
    }

    /// The slot's number, from 1; a number is never used again.
    package let id: UInt64
    package let kind: Kind
    /// When its secret was set, in seconds since 1970.
    package let created: UInt64
    package let label: SlotLabel
    package let derivation: SlotDerivation
    /// The salt of the derivation; a new secret has a new salt.
    let salt: Salt
    /// The wrapped master key.
    let wrapped: WrappedKey
    /// The bytes from which its device gives the secret; nil exactly for the kinds whose secrets a key source gives.
    package let token: SlotToken?

    init(
        id: UInt64, kind: Kind, created: UInt64, label: SlotLabel, derivation: SlotDerivation, salt: Salt,
        wrapped: WrappedKey, token: SlotToken? = nil
    ) {
        self.id = id
        self.kind = kind
        self.created = created
        self.label = label
        self.derivation = derivation
        self.salt = salt
        self.wrapped = wrapped
        self.token = token
    }

    /// Whether it has the same secret as another version of this slot, whatever their labels are.
    package func hasSecret(of other: Keyslot) -> Bool {
        id == other.id && salt == other.salt && wrapped == other.wrapped && derivation == other.derivation
            && token == other.token
    }
}

/// The owner's name for a slot: up to 64 characters that need no escaping anywhere.
package struct SlotLabel: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    /// No label.
    package static let none = SlotLabel(checked: "")

    private init(checked text: String) { self.text = text }

    /// - Throws: ``StoreError`` `invalidKey` when it is too long, begins or ends with a blank, or has characters other
    ///   than printable ASCII without `"` and `\`.
    package init(_ text: String) throws(StoreError) {
        guard Self.isAllowed(text.utf8) else {
            throw StoreError(
                .invalidKey, what: "The label of the keyslot cannot be used.",
                why: "It is too long, begins or ends with a blank, or has characters that are not allowed.",
                remedy:
                    "Use up to \(CustodyLimits.slotLabelCharacters) letters, digits and signs of ASCII, without \" and \\."
            )
        }
        self.text = text
    }

    static func isAllowed(_ text: some BidirectionalCollection<UInt8>) -> Bool {
        let blank = UInt8(ascii: " ")
        return text.count <= CustodyLimits.slotLabelCharacters && text.first != blank && text.last != blank
            && text.allSatisfy(isAllowed)
    }

    /// Whether a label may have this character of UTF-8.
    package static func mayContain(_ character: UInt8) -> Bool { isAllowed(character) }

    static func isAllowed(_ character: UInt8) -> Bool {
        (0x20...0x7e).contains(character) && character != UInt8(ascii: "\"") && character != UInt8(ascii: "\\")
    }

    package var description: String { text }
}
