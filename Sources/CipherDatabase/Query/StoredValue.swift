import Foundation

/// A value of a kept row in the memory of a ``RowBlock``.
///
/// It takes five bytes: one for its kind, and four of value. A longer value is stored elsewhere in the block, and the
/// four bytes are its distance. So a result takes little memory; allocating memory costs more time than anything else
/// about a row.
@usableFromInline
struct StoredValue {
    static let byteCount = 5

    /// The meaning of the four bytes.
    @usableFromInline
    enum Kind {
        case null
        /// An integer of 32 bits.
        case small
        /// The distance of an integer of 64 bits.
        case integer
        /// The distance of a floating-point number.
        case real
        /// The distance of a length in four bytes, followed by UTF-8.
        case text
        /// The distance of a length in four bytes, followed by the bytes.
        case blob
        /// The distance of the address of a ``DatabaseValue``.
        case boxed
    }

    @usableFromInline let address: UnsafeRawPointer

    /// A value of a kept row.
    ///
    /// - Parameters:
    ///   - row: The address of the row's values.
    ///   - index: The column, counted from 0.
    @inlinable
    init(in row: UnsafeRawPointer, at index: Int) { address = row + index &* 5 }

    @inlinable
    var kind: Kind { address.load(as: Kind.self) }

    /// An integer of 32 bits, or a distance.
    @inlinable
    var word: Int32 { address.loadUnaligned(fromByteOffset: 1, as: Int32.self) }

    /// The value that is stored elsewhere.
    private var far: UnsafeRawPointer { address + Int(word) }

    /// The bytes of a text or blob.
    private var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: far + 4, count: Int(far.loadUnaligned(as: Int32.self)))
    }

    /// The text of a value that is one, and stored in the block.
    @usableFromInline
    var text: String { String(decoding: bytes, as: UTF8.self) }

    var value: DatabaseValue {
        switch kind {
        case .null: .null
        case .small: DatabaseValue(.int64(Int64(word)))
        case .integer: DatabaseValue(.int64(far.loadUnaligned(as: Int64.self)))
        case .real: DatabaseValue(.double(far.loadUnaligned(as: Double.self)))
        case .text: DatabaseValue(.string(String(decoding: bytes, as: UTF8.self)))
        case .blob: DatabaseValue(.blob(Data(copying: bytes)))
        case .boxed: far.loadUnaligned(as: UnsafePointer<DatabaseValue>.self).pointee
        }
    }
}

extension DatabaseValue {
    @usableFromInline
    init(kept stored: StoredValue) { self = stored.value }
}

extension DatabaseValueConvertible {
    /// The value of a kept row's column.
    @inlinable
    init?(kept stored: StoredValue) {
        // The types are compared at compile time.
        if Self.self == Int64.self, stored.kind == .small, let number = Int64(stored.word) as? Self {
            self = number
        } else if Self.self == Int.self, stored.kind == .small, let number = Int(stored.word) as? Self {
            self = number
        } else if Self.self == String.self, stored.kind == .text, let text = stored.text as? Self {
            self = text
        } else if let value = Self.fromDatabaseValue(DatabaseValue(kept: stored)) {
            self = value
        } else {
            return nil
        }
    }
}
