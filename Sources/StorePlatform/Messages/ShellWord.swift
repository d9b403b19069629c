/// Words of a command line that a message tells to type: each means its text to a shell, whatever characters it has.
package enum ShellWord {
    /// A text as one word of a shell, in single quotes.
    ///
    /// Control characters become escapes of `$'...'`, which bash, ksh, zsh and POSIX of 2024 read.
    /// - SeeAlso: <https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html>
    package static func quoted(_ text: String) -> String {
        if text.unicodeScalars.contains(where: \.steersTerminal) { return "$'" + text.utf8.map(escape).joined() + "'" }
        return "'" + text.replacing("'", with: "'\\''") + "'"
    }

    /// A path as one word of a shell. One that begins with a dash would be read as an option.
    package static func path(_ path: String) -> String { quoted(path.hasPrefix("-") ? "./" + path : path) }

    private static func escape(_ byte: UInt8) -> String {
        switch byte {
        case UInt8(ascii: "\n"): "\\n"
        case UInt8(ascii: "\t"): "\\t"
        case UInt8(ascii: "\r"): "\\r"
        case UInt8(ascii: "'"), UInt8(ascii: "\\"): "\\" + String(Unicode.Scalar(byte))
        case 0x20..<0x7f: String(Unicode.Scalar(byte))
        // Three octal digits: a hexadecimal escape would take the digits that follow.
        default: "\\" + String(UInt32(byte) + 0o1000, radix: 8).dropFirst()
        }
    }
}

extension Unicode.Scalar {
    /// Whether it would control a terminal, or change the direction of the text around it.
    package var steersTerminal: Bool {
        switch value {
        case 0..<0x20, 0x7f...0x9f: true
        // Marks, embeddings, overrides and isolates of direction; separators of lines and paragraphs.
        case 0x061c, 0x200e...0x200f, 0x2028...0x202e, 0x2066...0x2069: true
        default: false
        }
    }
}
