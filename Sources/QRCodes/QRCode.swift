import CQRCode
import StoreCrypto
import StorePlatform

/// The QR code of a secret text: its modules are in locked memory.
package struct QRCode: Sendable {
    /// The modules of a side.
    package let width: Int
    /// One byte for each module, row by row: 1 for a dark one.
    private let modules: SecretBytes

    /// The light modules around a code that readers expect.
    static let margin = 4
    /// The modules of a side of version 20, which holds 970 characters in capitals. Recovery keys have 80.
    private static let mostWidth = 97

    /// Why there is no QR code.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// libqrencode 4 is not installed.
        case noLibrary
        /// The text is too long, or the library had no memory.
        case cannotEncode

        package var description: String {
            switch self {
            case .noLibrary: "libqrencode is not installed (Debian: apt-get install libqrencode4)"
            case .cannotEncode: "libqrencode could not encode the text"
            }
        }
    }

    /// Encodes a text without a zero byte, with error correction of the level M.
    ///
    /// - SeeAlso: ISO/IEC 18004.
    package init(_ text: SecretBytes) throws(Failure) {
        let terminated = SecretBytes(count: text.count + 1) { output in text.withBytes { output.copyMemory(from: $0) } }
        var result = Int32(0)
        let capacity = Self.mostWidth * Self.mostWidth
        let encoded = SecretBytes(count: capacity) { output in
            result = terminated.withBytes { text in
                cqrcode_encode(
                    text.bindMemory(to: CChar.self).baseAddress, output.bindMemory(to: UInt8.self).baseAddress, capacity
                )
            }
        }
        guard result > 0 else { throw result == Int32(cqrcode_no_library) ? .noLibrary : .cannotEncode }
        (width, modules) = (Int(result), encoded)
    }

    /// Whether libqrencode can be loaded.
    package static var isAvailable: Bool { (try? QRCode(SecretBytes(copying: "1".utf8))) != nil }

    /// Passes a function to `body` which says whether a module is dark, by column and row from 0; modules of the margin
    /// have negative numbers, and are light.
    func withModules<Result: ~Copyable>(_ body: ((_ column: Int, _ row: Int) -> Bool) -> Result) -> Result {
        modules.withBytes { modules in
            body { column, row in
                guard (0..<width).contains(column), (0..<width).contains(row) else { return false }
                return modules[row * width + column] != 0
            }
        }
    }

    // MARK: Terminal

    /// The code as lines of text, two rows of modules in each line. The light modules are drawn, white on black.
    ///
    /// - Parameter hasColors: Whether to set these colours, for a terminal that has others.
    package func text(hasColors: Bool) -> WipedBuffer {
        let (start, end) = hasColors ? ("\u{1b}[40;37;1m", "\u{1b}[0m\n") : ("", "\n")
        let range = -Self.margin..<width + Self.margin
        let lineBytes = start.utf8.count + range.count * "█".utf8.count + end.utf8.count
        func append(_ part: String, to text: inout WipedBuffer) { for byte in part.utf8 { text.append(byte) } }
        return withModules { isDark in
            var text = WipedBuffer(capacity: (range.count / 2 + 1) * lineBytes)
            for row in stride(from: range.lowerBound, to: range.upperBound, by: 2) {
                append(start, to: &text)
                for column in range {
                    // Below the last row there is nothing to draw.
                    switch (isDark(column, row), row + 1 == range.upperBound || isDark(column, row + 1)) {
                    case (true, true): append(" ", to: &text)
                    case (true, false): append("▄", to: &text)
                    case (false, true): append("▀", to: &text)
                    case (false, false): append("█", to: &text)
                    }
                }
                append(end, to: &text)
            }
            return text
        }
    }
}
