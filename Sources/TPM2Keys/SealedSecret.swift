/// The parts that are kept of a secret that a TPM has sealed: the object of the TPM, and what it was sealed under. None of
/// it is secret, and nothing of it is trusted: the TPM proves the object, and the name of the primary key proves the TPM.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 1 | version, 1 |
/// | 1 | 1 | 1 if a PIN is asked for, otherwise 0 |
/// | 2 | 2 | the bank of the PCRs, 0x000b: SHA-256 |
/// | 4 | 4 | the PCRs: bit n is PCR n, of 24 |
/// | 8 | 16 | salt of the PIN |
/// | 24 | 2 + n | name of the primary key: its length and its bytes |
/// | | 2 + n | name of the primary key of the endorsement hierarchy; empty if the TPM did not give it |
/// | | 2 + n | TPM2B_PUBLIC of the object |
/// | | 2 + n | TPM2B_PRIVATE of the object |
/// | | 32 each | the values of the PCRs, in the order of their numbers |
///
/// Numbers are big-endian.
package struct SealedSecret: Hashable, Sendable {
    package static let version = UInt8(1)
    /// The number of the algorithm SHA-256 in the specification of the TPM.
    static let bank = UInt16(0x000b)
    static let pcrCount = 24
    static let saltBytes = 16
    static let digestBytes = 32
    /// The longest name, and the longest part of an object.
    static let (nameBytes, partBytes) = (68, 512)

    package var pcrs: [Int]
    package var needsPIN: Bool
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
        var bytes = [Self.version, needsPIN ? 1 : 0]
        func number<Number: FixedWidthInteger>(_ value: Number) -> [UInt8] {
            withUnsafeBytes(of: value.bigEndian) { Array($0) }
        }
        bytes += number(Self.bank) + number(mask) + salt
        for part in [parent, machine, publicPart, privatePart] { bytes += number(UInt16(part.count)) + part }
        return bytes + values.flatMap(\.self)
    }

    /// - Returns: Nil for bytes that are no such blob: another version, lengths out of their bounds, trailing bytes.
    package init?(_ bytes: [UInt8]) {
        var rest = bytes[...]
        func take(_ count: Int) -> [UInt8]? {
            guard rest.count >= count else { return nil }
            defer { rest = rest.dropFirst(count) }
            return Array(rest.prefix(count))
        }
        func number(_ count: Int) -> UInt32? { take(count).map { $0.reduce(0) { $0 << 8 | UInt32($1) } } }
        func part(_ lengths: ClosedRange<Int>) -> [UInt8]? {
            guard let count = number(2), lengths.contains(Int(count)) else { return nil }
            return take(Int(count))
        }
        guard number(1) == UInt32(Self.version), let pin = number(1), pin <= 1, number(2) == UInt32(Self.bank),
            let mask = number(4), mask >> UInt32(Self.pcrCount) == 0, let salt = take(Self.saltBytes),
            let parent = part(1...Self.nameBytes), let machine = part(0...Self.nameBytes),
            let publicPart = part(1...Self.partBytes), let privatePart = part(1...Self.partBytes)
        else { return nil }
        pcrs = (0..<Self.pcrCount).filter { mask >> UInt32($0) & 1 == 1 }
        guard rest.count == pcrs.count * Self.digestBytes else { return nil }
        values = pcrs.compactMap { _ in take(Self.digestBytes) }
        needsPIN = pin == 1
        (self.salt, self.parent, self.machine) = (salt, parent, machine)
        (self.publicPart, self.privatePart) = (publicPart, privatePart)
    }

    init(pcrs: [Int], needsPIN: Bool, salt: [UInt8], values: [[UInt8]]) {
        (self.pcrs, self.needsPIN, self.salt, self.values) = (pcrs, needsPIN, salt, values)
        (parent, machine, publicPart, privatePart) = ([], [], [], [])
    }
}

extension SealedSecret: CustomStringConvertible {
    /// The conditions, for a list of keyslots: `PCRs 7+11, PIN`.
    package var description: String {
        let pcrs =
            pcrs.isEmpty ? nil : "PCR\(pcrs.count == 1 ? "" : "s") \(pcrs.map(String.init).joined(separator: "+"))"
        let conditions = [pcrs, needsPIN ? "PIN" : nil].compactMap(\.self)
        return conditions.isEmpty ? "this machine" : conditions.joined(separator: ", ")
    }
}
