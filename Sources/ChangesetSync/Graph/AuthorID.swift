import StoreCrypto

/// The author of commits: a replica of a repository. Random, and made when a store joins the repository; a copy of the
/// store gets another one.
public struct AuthorID: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// Number of bytes of every author.
    public static let byteCount = FixedBytes<SIMD2<UInt64>>.byteCount
    private let content: FixedBytes<SIMD2<UInt64>>

    /// No replica: the author of a merge, which every replica makes alike.
    package static let none = AuthorID(content: FixedBytes())

    private init(content: FixedBytes<SIMD2<UInt64>>) { self.content = content }

    /// - Returns: nil unless there are 16 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard let content = FixedBytes<SIMD2<UInt64>>(bytes) else { return nil }
        self.content = content
    }

    /// Makes a new author with the system's random generator.
    package static func random() throws(CryptoError) -> AuthorID {
        while true {
            let author = AuthorID(bytes: try SystemRandom.bytes(byteCount))
            if let author, author != .none { return author }
        }
    }

    public var bytes: [UInt8] { content.bytes }
    /// The bytes as 32 lower-case hexadecimal digits.
    public var description: String { content.text }
    public static func < (one: Self, other: Self) -> Bool { one.content < other.content }
}

/// The identifier of a schema: equal when the tracked tables have the same definitions.
package struct SchemaID: Hashable, Sendable, CustomStringConvertible {
    package static let byteCount = FixedBytes<SIMD2<UInt64>>.byteCount
    private let content: FixedBytes<SIMD2<UInt64>>

    /// - Returns: nil unless there are 16 bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard let content = FixedBytes<SIMD2<UInt64>>(bytes) else { return nil }
        self.content = content
    }

    package var bytes: [UInt8] { content.bytes }
    package var description: String { content.text }
}

/// The digest of a table after a commit.
package struct TableDigest: Sendable {
    package static let byteCount = FixedBytes<SIMD2<UInt64>>.byteCount

    package let table: String
    private let content: FixedBytes<SIMD2<UInt64>>

    /// - Returns: nil unless there are 16 bytes.
    package init?(table: String, bytes: some Collection<UInt8>) {
        guard let content = FixedBytes<SIMD2<UInt64>>(bytes) else { return nil }
        self.table = table
        self.content = content
    }

    package var bytes: [UInt8] { content.bytes }
}

/// Names are equal when they have the same bytes.
extension TableDigest: Hashable {
    package static func == (left: TableDigest, right: TableDigest) -> Bool {
        left.content == right.content && left.table.utf8.elementsEqual(right.table.utf8)
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(content) }
}
