import Foundation

/// Reads the JSON files of Keys/vectors, which an independent generator wrote.
struct VectorFile<Vector: Decodable>: Decodable {
    var vectors: [Vector]

    static func load(_ name: String) -> [Vector] {
        // Tests/Unit/StoreCrypto/VectorFile.swift is four levels below the root.
        let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let file = root.appending(path: "Keys/vectors/\(name)")
        return try! JSONDecoder().decode(VectorFile.self, from: Data(contentsOf: file)).vectors
    }
}

/// Bytes that JSON holds as hexadecimal digits.
struct Hex: Decodable, Equatable, Sendable, CustomStringConvertible {
    var bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    init(from decoder: any Decoder) throws {
        let digits = Array(try decoder.singleValueContainer().decode(String.self).utf8)
        bytes = stride(from: 0, to: digits.count - 1, by: 2).map { index in
            UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16)!
        }
    }

    var description: String { bytes.map { String(format: "%02x", $0) }.joined() }
}
