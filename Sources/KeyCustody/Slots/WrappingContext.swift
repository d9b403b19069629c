import StoreCrypto

/// The context to which a wrapped key is bound: it opens in no other store, slot or epoch, and under no other
/// parameters.
///
/// Every value has a fixed length, but for the blob of a token, which is the last one. So different contexts never have
/// the same bytes. `Docs/Formats/Sidecar.md` tabulates them. The salt of the pages is not part of a slot's context: a rotation changes it and changes no slot.
struct WrappingContext: Hashable, Sendable {
    static let magic = "cipherstore-wrap"
    /// The bytes without a token.
    static let byteCount = 72

    let additionalData: [UInt8]

    private enum Purpose: UInt8 {
        case masterKeyInSlot = 1
        case dataKey = 2
        case nextDataKey = 3
    }

    /// The context of the master key in a keyslot.
    static func slot(
        _ id: UInt64, kind: Keyslot.Kind, derivation: SlotDerivation, salt: Salt, token: SlotToken? = nil,
        storeID: StoreID
    ) -> WrappingContext {
        var writer = FieldWriter(.masterKeyInSlot, storeID, hasToken: token != nil)
        writer.number(id)
        writer.byte(kind.wrappingCode)
        let (code, parameters) = derivation.wrappingCode
        writer.byte(code)
        parameters.forEach { writer.word($0) }
        writer.bytes(salt.bytes)
        if let token {
            let name = Array(token.name.text.utf8)
            writer.byte(UInt8(name.count))
            writer.bytes(name)
            writer.bytes(token.blob)
        }
        return WrappingContext(additionalData: writer.output)
    }

    /// The context of the data key of an epoch, under the master key.
    static func dataKey(epoch: UInt64, salt: Salt, settings: CipherSettings, storeID: StoreID) -> WrappingContext {
        WrappingContext(FieldWriter(.dataKey, storeID), epoch, salt, settings)
    }

    /// The context of the data key of the next epoch of a direct store, under the present one.
    static func nextDataKey(
        epoch: UInt64, salt: Salt, settings: CipherSettings, storeID: StoreID
    ) -> WrappingContext {
        WrappingContext(FieldWriter(.nextDataKey, storeID), epoch, salt, settings)
    }

    private init(additionalData: [UInt8]) { self.additionalData = additionalData }

    private init(_ start: FieldWriter, _ epoch: UInt64, _ salt: Salt, _ settings: CipherSettings) {
        var writer = start
        writer.number(epoch)
        writer.bytes(salt.bytes)
        writer.word(settings.pageBytes)
        writer.word(settings.plaintextHeaderBytes)
        writer.word(settings.kdfRounds)
        writer.byte(settings.kdfHash.wrappingCode)
        writer.byte(settings.hmacHash.wrappingCode)
        additionalData = writer.output
    }

    private struct FieldWriter {
        private(set) var output: [UInt8]

        init(_ purpose: Purpose, _ storeID: StoreID, hasToken: Bool = false) {
            // The version in which this context appeared: a slot without a token has the same one in every version.
            let version =
                hasToken
                ? Sidecar.tokensVersion
                : purpose == .nextDataKey ? Sidecar.directVersion : Sidecar.slotsVersion
            output = Array(magic.utf8) + [UInt8(version), purpose.rawValue] + storeID.bytes
        }

        mutating func byte(_ value: UInt8) { output.append(value) }
        mutating func bytes(_ value: [UInt8]) { output += value }

        /// 8 bytes, big-endian.
        mutating func number(_ value: UInt64) {
            output += stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> UInt64($0)) }
        }

        /// 4 bytes, big-endian.
        mutating func word(_ value: Int) {
            output += stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> $0) }
        }
    }
}
