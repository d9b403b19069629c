/// The name of a repository: 16 random bytes. It is no secret; the folder or the rows of a remote are named by it.
public struct RepositoryID: Hashable, Sendable, Comparable, CustomStringConvertible {
    public static let byteCount = FixedBytes<SIMD2<UInt64>>.byteCount
    let content: FixedBytes<SIMD2<UInt64>>

    /// - Returns: nil unless there are 16 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard let content = FixedBytes<SIMD2<UInt64>>(bytes) else { return nil }
        self.content = content
    }

    /// - Parameter text: 32 lower-case hexadecimal digits.
    public init?(_ text: some StringProtocol) {
        guard let content = FixedBytes<SIMD2<UInt64>>(hexadecimal: text) else { return nil }
        self.content = content
    }

    init(_ content: FixedBytes<SIMD2<UInt64>>) { self.content = content }

    public var bytes: [UInt8] { content.bytes }
    public var description: String { content.text }
    public static func < (one: Self, other: Self) -> Bool { one.content < other.content }
}

/// The identifier of a commit: a code over everything in it, which only a holder of the repository's key can compute.
/// Equal commits have equal identifiers. A commit has the same identifier as its object at a remote.
public typealias CommitID = ObjectID

/// The name of an object at a remote: 32 bytes, the identifier of a commit or of a part of one.
///
/// It is an HMAC of the object's plaintext under a key of the repository. So it names one content, and says nothing about
/// it to those who do not have the key.
public struct ObjectID: Hashable, Sendable, Comparable, LosslessStringConvertible {
    public static let byteCount = FixedBytes<SIMD4<UInt64>>.byteCount
    let content: FixedBytes<SIMD4<UInt64>>

    /// - Returns: nil unless there are 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard let content = FixedBytes<SIMD4<UInt64>>(bytes) else { return nil }
        self.content = content
    }

    /// - Parameter text: 64 lower-case hexadecimal digits.
    public init?(_ text: some StringProtocol) {
        guard let content = FixedBytes<SIMD4<UInt64>>(hexadecimal: text) else { return nil }
        self.content = content
    }

    init(_ content: FixedBytes<SIMD4<UInt64>>) { self.content = content }

    public var bytes: [UInt8] { content.bytes }
    public var description: String { content.text }
    public static func < (one: Self, other: Self) -> Bool { one.content < other.content }
}

/// How a remote sees an author: 16 bytes, an HMAC of the author's identifier under a key of the repository.
public struct AuthorPseudonym: Hashable, Sendable, Comparable, CustomStringConvertible {
    public static let byteCount = FixedBytes<SIMD2<UInt64>>.byteCount
    let content: FixedBytes<SIMD2<UInt64>>

    /// - Returns: nil unless there are 16 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard let content = FixedBytes<SIMD2<UInt64>>(bytes) else { return nil }
        self.content = content
    }

    /// - Parameter text: 32 lower-case hexadecimal digits.
    public init?(_ text: some StringProtocol) {
        guard let content = FixedBytes<SIMD2<UInt64>>(hexadecimal: text) else { return nil }
        self.content = content
    }

    init(_ content: FixedBytes<SIMD2<UInt64>>) { self.content = content }

    /// The author of what nobody wrote: a part of a commit.
    static let nobody = AuthorPseudonym(FixedBytes())

    public var bytes: [UInt8] { content.bytes }
    public var description: String { content.text }
    public static func < (one: Self, other: Self) -> Bool { one.content < other.content }
}

/// A fixed number of bytes without an allocation, in the order of their bytes.
struct FixedBytes<Words: SIMD & Sendable & Hashable>: Hashable, Sendable, Comparable where Words.Scalar == UInt64 {
    static var byteCount: Int { Words.scalarCount * 8 }

    /// Big-endian: the first byte is the highest one of the first word.
    private var words: Words

    /// Zeros.
    init() { words = Words(repeating: 0) }

    init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init()
        for (index, byte) in bytes.enumerated() {
            words[index / 8] = words[index / 8] << 8 | UInt64(byte)
        }
    }

    /// - Parameter text: Lower-case hexadecimal digits, two a byte.
    init?(hexadecimal text: some StringProtocol) {
        let digits = text.utf8
        guard digits.count == 2 * Self.byteCount else { return nil }
        self.init()
        for (index, digit) in digits.enumerated() {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            default: return nil
            }
            words[index / 16] = words[index / 16] << 4 | UInt64(value)
        }
    }

    /// The bytes at an offset; the caller has checked that they are inside.
    init(loading bytes: UnsafeRawBufferPointer, at offset: Int) {
        self.init()
        for index in 0..<Words.scalarCount {
            words[index] = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset + index * 8, as: UInt64.self))
        }
    }

    /// Writes the bytes at an offset; the caller has checked that they are inside.
    func store(in buffer: UnsafeMutableRawBufferPointer, at offset: Int) {
        for index in 0..<Words.scalarCount {
            buffer.storeBytes(of: words[index].bigEndian, toByteOffset: offset + index * 8, as: UInt64.self)
        }
    }

    /// The bytes that a call writes into a buffer of ``byteCount`` bytes.
    init<E: Error>(filledBy body: (UnsafeMutableRawBufferPointer) throws(E) -> Void) throws(E) {
        var filled = Words(repeating: 0)
        try withUnsafeMutableBytes(of: &filled) { (buffer) throws(E) in
            try body(UnsafeMutableRawBufferPointer(rebasing: buffer[..<Self.byteCount]))
        }
        self.init()
        for index in 0..<Words.scalarCount { words[index] = UInt64(bigEndian: filled[index]) }
    }

    /// The first 16 bytes as a number.
    var leadingNumber: UInt128 { UInt128(words[0]) << 64 | UInt128(words[1]) }

    var bytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.byteCount) { output, written in
            output.initialize(repeating: 0)
            store(in: UnsafeMutableRawBufferPointer(output), at: 0)
            written = Self.byteCount
        }
    }

    var text: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    static func < (one: Self, other: Self) -> Bool {
        for index in 0..<Words.scalarCount where one.words[index] != other.words[index] {
            return one.words[index] < other.words[index]
        }
        return false
    }
}
