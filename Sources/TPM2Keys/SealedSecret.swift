import StoreCrypto

/// The parts that are kept of a secret that a TPM has sealed: the object of the TPM, and its conditions. None of it is
/// secret, and nothing of it is trusted: the TPM proves the object, and the name of the primary key proves the TPM.
///
/// The form as bytes has version 2 if a key signs the values of PCRs, otherwise version 1, which former libraries read.
///
/// - SeeAlso: Docs/Formats/SealedSecret.md.
package struct SealedSecret: Hashable, Sendable {
    /// The number of the algorithm SHA-256 in the specification of the TPM.
    static let bank = UInt16(0x000b)
    static let pcrCount = 24
    static let saltBytes = 16
    static let digestBytes = 32
    /// The longest name, and the longest part of an object.
    static let (nameBytes, partBytes) = (68, 512)
    /// The places of the first values, and of the first one that depends on the version.
    static let offsets = (version: 0, pin: 1, bank: 2, pcrs: 4, salt: 8, rest: 24)

    package var pcrs: [Int]
    package var needsPIN: Bool
    package var signed: SignedPolicy?
    var salt: [UInt8]
    var parent: [UInt8]
    var machine: [UInt8]
    var publicPart: [UInt8]
    var privatePart: [UInt8]
    /// The value of each of the PCRs when the secret was sealed.
    var values: [[UInt8]]

    /// Bit n is PCR n.
    var mask: UInt32 { pcrs.reduce(0) { $0 | 1 << UInt32($1) } }

    package var encoded: [UInt8] {
        var bytes = [signed == nil ? 1 : 2, needsPIN ? 1 : 0] as [UInt8]
        func number<Number: FixedWidthInteger>(_ value: Number) -> [UInt8] {
            withUnsafeBytes(of: value.bigEndian) { Array($0) }
        }
        func part(_ part: [UInt8]) -> [UInt8] { number(UInt16(part.count)) + part }
        bytes += number(Self.bank) + number(mask) + salt
        if let signed { bytes += number(signed.mask) + part(signed.key.modulus) }
        for value in [parent, machine, publicPart, privatePart] { bytes += part(value) }
        return bytes + values.flatMap(\.self)
    }

    /// - Returns: Nil for bytes that are no such blob: another version, values out of their bounds, trailing bytes.
    package init?(_ bytes: [UInt8]) {
        var rest = Rest(bytes[...])
        guard let version = rest.number(1), (1...2).contains(version), let pin = rest.number(1), pin <= 1,
            rest.number(2) == UInt32(Self.bank), let pcrs = rest.pcrs(), let salt = rest.take(Self.saltBytes)
        else { return nil }
        if version == 2 {
            guard let signedPCRs = rest.pcrs(), let modulus = rest.part(1...Self.partBytes),
                let key = RSAPublicKey(modulus: modulus), let signed = SignedPolicy(key: key, pcrs: signedPCRs)
            else { return nil }
            self.signed = signed
        }
        guard let parent = rest.part(1...Self.nameBytes), let machine = rest.part(0...Self.nameBytes),
            let publicPart = rest.part(1...Self.partBytes), let privatePart = rest.part(1...Self.partBytes),
            rest.count == pcrs.count * Self.digestBytes
        else { return nil }
        values = pcrs.compactMap { _ in rest.take(Self.digestBytes) }
        (self.pcrs, needsPIN, self.salt, self.parent, self.machine) = (pcrs, pin == 1, salt, parent, machine)
        (self.publicPart, self.privatePart) = (publicPart, privatePart)
    }

    /// The bytes of a blob that are not read yet.
    private struct Rest {
        private var bytes: ArraySlice<UInt8>
        var count: Int { bytes.count }

        init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

        mutating func take(_ count: Int) -> [UInt8]? {
            guard bytes.count >= count else { return nil }
            defer { bytes = bytes.dropFirst(count) }
            return Array(bytes.prefix(count))
        }

        mutating func number(_ count: Int) -> UInt32? { take(count).map { $0.reduce(0) { $0 << 8 | UInt32($1) } } }

        mutating func part(_ lengths: ClosedRange<Int>) -> [UInt8]? {
            guard let count = number(2), lengths.contains(Int(count)) else { return nil }
            return take(Int(count))
        }

        mutating func pcrs() -> [Int]? {
            guard let mask = number(4), mask >> UInt32(SealedSecret.pcrCount) == 0 else { return nil }
            return (0..<SealedSecret.pcrCount).filter { mask >> UInt32($0) & 1 == 1 }
        }
    }

    init(pcrs: [Int], signed: SignedPolicy?, needsPIN: Bool, salt: [UInt8], values: [[UInt8]]) {
        (self.pcrs, self.signed, self.needsPIN, self.salt, self.values) = (pcrs, signed, needsPIN, salt, values)
        (parent, machine, publicPart, privatePart) = ([], [], [], [])
    }
}

extension SealedSecret: CustomStringConvertible {
    /// The conditions: `PCRs 7+12, signed PCR 11, PIN`.
    package var description: String {
        let conditions = [
            pcrs.isEmpty ? nil : Self.text(of: pcrs), signed.map { "signed \(Self.text(of: $0.pcrs))" },
            needsPIN ? "PIN" : nil,
        ].compactMap(\.self)
        return conditions.isEmpty ? "this machine" : conditions.joined(separator: ", ")
    }

    /// The same for a list of keyslots, where a text has at most 64 characters.
    var label: String {
        let signedCount = signed.map { ", \($0.pcrs.count) signed PCRs" } ?? ""
        return description.count <= 64 ? description : "\(pcrs.count) PCRs\(signedCount)\(needsPIN ? ", PIN" : "")"
    }

    static func text(of pcrs: [Int]) -> String {
        "PCR\(pcrs.count == 1 ? "" : "s") \(pcrs.map(String.init).joined(separator: "+"))"
    }
}
