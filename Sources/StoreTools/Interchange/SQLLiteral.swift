import CipherDatabase
import KeyCustody
import StorePlatform

/// Values as SQL expressions that SQLite reads back with the same type and the same bytes.
package enum SQLLiteral {
    /// - Parameter escapesControls: Whether texts that would control a terminal are written as their bytes.
    package static func text(of row: Row, at index: Int, escapesControls: Bool = false) -> String {
        if let bytes = row.undecodableText(at: index) { return cast(Array(bytes)) }
        return text(row.databaseValue(at: index), escapesControls: escapesControls)
    }

    package static func text(_ value: DatabaseValue, escapesControls: Bool = false) -> String {
        switch value.storage {
        case .null: "NULL"
        case .int64(let value): String(value)
        case .double(let value): number(value)
        case .blob(let value): "X'\(Hex.text(Array(value)).uppercased())'"
        case .string(let value):
            // A NUL ends the text of a statement, and SQLite's shell reads CR LF as LF.
            value.utf8.contains { $0 == 0 || $0 == 13 } || escapesControls && controlsTerminal(value)
                ? cast(Array(value.utf8)) : "'" + value.replacing("'", with: "''") + "'"
        }
    }

    /// A name in double quotes.
    package static func identifier(_ name: String) -> String { name.quotedIdentifier }

    /// A text by its bytes, which need not be UTF-8.
    package static func cast(_ bytes: [UInt8]) -> String { "CAST(X'\(Hex.text(bytes).uppercased())' AS TEXT)" }

    private static func controlsTerminal(_ text: String) -> Bool {
        text.unicodeScalars.contains { $0.steersTerminal && $0 != "\n" && $0 != "\t" }
    }

    private static func number(_ value: Double) -> String {
        // SQLite has no word for infinity; a number that is too large becomes one.
        value.isInfinite ? (value < 0 ? "-1e999" : "1e999") : value.isNaN ? "NULL" : String(value)
    }
}
