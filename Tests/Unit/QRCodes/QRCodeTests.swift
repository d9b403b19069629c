import Foundation
import StoreCrypto
import TestKit
import Testing

@testable import QRCodes

/// Codes are decoded by `zbarimg`, a program that has nothing in common with the library that makes them.
@Suite("QR codes", .enabled(if: QRCode.isAvailable, "needs libqrencode"))
struct QRCodeTests {
    private static let text = "04N6-Q4EF-081G-29QX 5792-NZ5R-A215-01JZ FR22-63EF-QP5B-G8YR"
    private static let reader = "/usr/bin/zbarimg"
    static let hasReader = FileManager.default.isExecutableFile(atPath: reader)

    private func code(_ text: String) throws -> QRCode { try QRCode(SecretBytes(copying: text.utf8)) }

    /// The text that `zbarimg` finds in an image.
    private func decoded(_ image: [UInt8], _ ending: String) throws -> String {
        let folder = TemporaryFolder()
        let path = folder.path("code.\(ending)")
        try Data(image).write(to: URL(filePath: path))
        let process = Process()
        process.executableURL = URL(filePath: Self.reader)
        process.arguments = ["--quiet", "--raw", path]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .newlines)
    }

    @Test("an image is read by another program", .enabled(if: hasReader, "needs zbarimg"))
    func image() throws {
        for text in [Self.text, "1", String(repeating: "ABC-", count: 200)] {
            let png = try code(text).png().withBytes { Array($0) }
            #expect(png.prefix(8) == [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
            #expect(try decoded(png, "png") == text)
        }
    }

    @Test("what a terminal shows is read by another program", .enabled(if: hasReader, "needs zbarimg"))
    func terminal() throws {
        let shown = try code(Self.text).text(hasColors: false).withBytes { String(decoding: $0, as: UTF8.self) }
        let lines = shown.split(separator: "\n")
        let width = try #require(lines.first?.count)
        #expect(lines.allSatisfy { $0.count == width })
        // A grey image (PGM) with eight by eight pixels for each module.
        var pixels: [UInt8] = []
        for line in lines {
            for dark in [Set<Character>(" ▄"), Set<Character>(" ▀")] {
                let row = line.flatMap { [UInt8](repeating: dark.contains($0) ? 0 : 255, count: 8) }
                for _ in 0..<8 { pixels += row }
            }
        }
        let head = "P5 \(width * 8) \(lines.count * 16) 255\n"
        #expect(try decoded(Array(head.utf8) + pixels, "pgm") == Self.text)
    }

    @Test("with colours each line sets its own, and ends with those of the terminal")
    func colors() throws {
        let shown = try code("1").text(hasColors: true).withBytes { String(decoding: $0, as: UTF8.self) }
        for line in shown.split(separator: "\n") {
            #expect(line.hasPrefix("\u{1b}[40;37;1m") && line.hasSuffix("\u{1b}[0m"))
        }
    }

    @Test("a text that fits no code of these sizes is refused")
    func tooLong() {
        #expect(throws: QRCode.Failure.cannotEncode) { try code(String(repeating: "x", count: 3_000)) }
    }
}
