import Foundation

/// Bytes as people look at them: offset, hexadecimal, characters.
enum HexDump {
    static func lines(_ bytes: [UInt8]) -> [String] {
        stride(from: 0, to: bytes.count, by: 16).map { start in
            let row = bytes[start..<min(start + 16, bytes.count)]
            let hex = row.map { String(format: "%02x", $0) }.joined(separator: " ")
            let characters = row.map { (0x20..<0x7f).contains($0) ? String(UnicodeScalar($0)) : "." }.joined()
            return String(format: "%04x  ", start) + hex.padding(toLength: 47, withPad: " ", startingAt: 0)
                + "  \(characters)"
        }
    }
}
