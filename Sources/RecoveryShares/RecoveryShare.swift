import KeyCustody
import StoreCrypto
import StorePlatform

/// One of the shares of a recovery key, of which some number opens the store ([format](../../Docs/Formats/Shares.md)).
///
/// Its values are in locked memory that all copies share, and are wiped after the last of them is destroyed.
public struct RecoveryShare: Sendable {
    /// The first line of a share. It is no secret.
    public struct Header: Hashable, Sendable {
        /// A random number that all shares of one recovery key have.
        public let set: UInt32
        /// The number of shares that open the store.
        public let threshold: Int
        /// The number of shares of the set.
        public let count: Int
        /// The number of this share, from 1.
        public let number: Int
    }

    /// The number of lines of a printed share.
    public static let lineCount = 1 + valueBytes / ShareLine.dataBytes
    /// The number of shares that a recovery key can have.
    public static let counts = 2...16
    /// Bytes of the text of a share: ``lineCount`` lines of 19 characters, each with its end.
    public static let textBytes = lineCount * ShareLine.textBytes

    /// The first byte of a header.
    static let version = UInt8(1)
    /// The bytes that are shared: the key and its digest.
    static let valueBytes = RawKey.byteCount + digestBytes
    static let digestBytes = 8

    public let header: Header
    let values: SecretBytes

    init(header: Header, values: SecretBytes) {
        self.header = header
        self.values = values
    }

    var share: SecretSharing.Share { SecretSharing.Share(point: UInt8(header.number), values: values) }

    /// Passes the printed lines to `body`: ASCII in groups of four characters, each line ended by a line feed. The bytes
    /// must not outlive the call, and `body` must wipe its copies.
    public func withText<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try text().withBytes { (bytes: UnsafeRawBufferPointer) in try body(bytes) }
    }

    /// The printed lines in locked memory.
    package func text() -> SecretBytes {
        values.withBytes { values in
            SecretBytes(count: Self.textBytes) { output in
                for line in 1...Self.lineCount {
                    let data = line == 1 ? header.data : Self.data(values, line: line)
                    let start = (line - 1) * ShareLine.textBytes
                    let place = UnsafeMutableRawBufferPointer(rebasing: output[start..<start + ShareLine.textBytes])
                    ShareLine.write(data, line: line, header: line == 1 ? nil : header.data, to: place)
                }
            }
        }
    }

    private static func data(_ values: UnsafeRawBufferPointer, line: Int) -> UInt64 {
        let start = (line - 2) * ShareLine.dataBytes
        return values[start..<start + ShareLine.dataBytes].reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// A line for people above the printed lines. A reader skips it.
    public var caption: String {
        "# share \(header.number) of \(header.count) of a CipherStore recovery key, set \(header.setText): any "
            + "\(header.threshold) of them open the store"
    }
}

extension RecoveryShare.Header {
    /// The set in hexadecimal digits.
    public var setText: String {
        let digits = String(set, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }

    /// The fields that are equal for all shares of a set, in the order of the format.
    var common: [UInt8] {
        [RecoveryShare.version] + (0..<4).map { UInt8(truncatingIfNeeded: set >> UInt32(24 - 8 * $0)) }
            + [UInt8(threshold), UInt8(count)]
    }

    /// The data of line 1.
    var data: UInt64 { (common + [UInt8(number)]).reduce(0) { $0 << 8 | UInt64($1) } }

    /// - Throws: ``RecoveryShare/ReadingError`` `version` for a later format, `check` for values that no share has.
    init(data: UInt64) throws(RecoveryShare.ReadingError) {
        let version = UInt8(truncatingIfNeeded: data >> 56)
        guard version == RecoveryShare.version else { throw .version(version) }
        set = UInt32(truncatingIfNeeded: data >> 24)
        (threshold, count) = (Int(data >> 16 & 0xff), Int(data >> 8 & 0xff))
        number = Int(data & 0xff)
        guard RecoveryShare.counts.contains(count), (2...count).contains(threshold), (1...count).contains(number) else {
            throw .check(line: 1)
        }
    }
}

extension RecoveryShare: CustomStringConvertible, CustomReflectable {
    public var description: String { "RecoveryShare(\(header.number) of \(header.count))" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
