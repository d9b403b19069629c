import CipherStore
import Foundation
import StoreCrypto
import StorePlatform
import StoreTools

/// The verdict of this package's own code about a vector, and the values that it found.
struct VectorVerdict: Error, Sendable {
    /// `ok`, or the name of an error, as after `expect:`.
    let name: String
    let results: [String: String]

    static func ok(_ results: [String: String] = [:]) -> VectorVerdict { VectorVerdict("ok", results) }

    init(_ name: String, _ results: [String: String] = [:]) {
        self.name = name
        self.results = results
    }

    /// The verdict for an error that the code throws.
    init(_ error: any Error) {
        switch error {
        case let verdict as VectorVerdict: self = verdict
        case let error as StoreError:
            if case .pageDamaged(let page) = error.code {
                self.init("pageDamaged \(page)")
            } else {
                // The verdicts are a format of their own.
                self.init(error.code == .walDamaged ? "logDamaged" : error.code.name)
            }
        case let error as ToolError: self.init(error.code.rawValue)
        case let error as DatabaseError: self.init("databaseError \(error.resultCode.rawValue)")
        default: self.init("error: \(error)")
        }
    }
}

extension Sequence where Element: CustomStringConvertible {
    /// The values one after another, with blanks between them; `none` where there are none.
    var listed: String {
        let text = map(\.description).joined(separator: " ")
        return text.isEmpty ? "none" : text
    }
}

extension Sequence<UInt8> {
    var hex: String { map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() }
}

extension [UInt8] {
    func sha256() throws -> String {
        var digest = try ContentDigest()
        withUnsafeBytes { digest.update($0) }
        return try digest.finish().hex
    }
}

extension SecretBytes {
    var hex: String { withBytes { $0.hex } }
}
