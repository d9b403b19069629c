/// The name of a table or a column. Names are equal if they have the same bytes, unlike two `String`s.
package struct Name: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let text: String

    init(_ text: String) {
        var text = text
        text.makeContiguousUTF8()
        self.text = text
    }

    package var description: String { text }

    package static func == (one: Name, other: Name) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

    package func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
        hasher.combine(UInt8(0xff))
    }

    package static func < (one: Name, other: Name) -> Bool { one.text.utf8.lexicographicallyPrecedes(other.text.utf8) }
}

extension Name: ExpressibleByStringLiteral {
    package init(stringLiteral value: String) { self.init(value) }
}

/// A column by its identity, which a renaming keeps (F14).
package struct ColumnID: Hashable, Sendable, Comparable {
    /// The name with which the column was made.
    let name: Name
    /// How many columns of this first name were renamed away or dropped before the column was made.
    let reuse: UInt32

    init(_ name: Name, reuse: UInt32 = 0) {
        self.name = name
        self.reuse = reuse
    }

    package static func < (one: ColumnID, other: ColumnID) -> Bool {
        one.name != other.name ? one.name < other.name : one.reuse < other.reuse
    }
}
