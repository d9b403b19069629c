/// Why bytes are not a sidecar that this version reads. It never contains content of the file.
package enum SidecarSyntaxError: Error, Hashable, Sendable {
    /// The file is longer than any sidecar.
    case tooLong(limitBytes: Int)
    /// The file has no bytes.
    case empty
    /// A line, counted from 1, does not match the format.
    case malformed(line: Int, expected: String)
    /// A number is outside its bounds.
    case outOfRange(line: Int, field: String)
    /// The file has a format of a later version.
    case versionAhead(UInt64)

    /// Whether a newer version of the library would read the file. The file is then not damaged and must not be
    /// replaced.
    var isAhead: Bool {
        switch self {
        case .versionAhead: true
        case .tooLong, .empty, .malformed, .outOfRange: false
        }
    }
}

extension SidecarSyntaxError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .tooLong(let limit): "it is longer than \(limit) bytes"
        case .empty: "it is empty"
        case .malformed(let line, let expected): "line \(line) is not as the format says (expected \(expected))"
        case .outOfRange(let line, let field): "\(field) in line \(line) is out of range"
        case .versionAhead(let version): "it has format version \(version)"
        }
    }
}
