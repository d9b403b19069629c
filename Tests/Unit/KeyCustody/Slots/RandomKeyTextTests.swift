import Foundation
import Testing

@testable import KeyCustody

/// Which texts of commands and credentials are keys, and are not stretched.
@Suite struct RandomKeyTextTests {
    private func isRandom(_ text: String) -> Bool { Array(text.utf8).withUnsafeBytes { RandomKeyText.isRandom($0) } }

    // HKDF was used for each of the first ones: a guess cost microseconds.
    @Test(
        "what a person has chosen is stretched, whatever its characters are",
        arguments: [
            "Correct-Horse-Battery-Staple-Banana-Lamp-2024", "Correct-Horse-Battery-Staple-Banana-Lamp-202",
            "CorrectHorseBatteryStapleBananaLampChair2024", "MyDogIsCalledRexAndIWasBornIn1984InHamburg22",
            "MeinHundHeisstRexUndIchBin1984InHamburgGebor", "JeMAppelleMarieEtMonChienSAppelleRex1984Pari",
            "C0rr3ct-H0rs3-B4tt3ry-St4pl3-B4n4n4-L4mp-2024XX", "Passwort1Passwort2Passwort3Passwort4Passwort",
            "aA1aA1aA1aA1aA1aA1aA1aA1aA1aA1aA1aA1aA1aA1aA", String(repeating: "1", count: 64),
            String(repeating: "0f", count: 32), String(repeating: "deadbeef", count: 8),
            String(repeating: "0123456789abcdef", count: 4), String(repeating: "0123456789abcdef", count: 8),
            "31415926535897932384626433832795" + "02884197169399375105820974944592",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
            "four score and seven years ago our fathers brought forth", "",
        ])
    func chosen(text: String) { #expect(!isRandom(text), "\(text)") }

    @Test("nor is a text a key that does not decode without remainder, or to too few bytes")
    func canonical() {
        let base64 = "hHq3v9y0Xc1bTn5zLw8kRj2sUf7gAe4dMi6pOoZqYtE="
        #expect(isRandom(base64) && isRandom(String(base64.dropLast())))
        for text in [
            base64.replacing("E=", with: "F="), base64 + "=", "=" + base64, String(base64.dropLast(2)), base64 + "\n",
            base64.replacing("9y0", with: "+_0"), base64.replacing("9y0", with: "9 0"),
        ] {
            #expect(!isRandom(text), "\(text)")
        }
        let digits = "9f3c81d2e07b64a5f81e2d93c6b07a4f" + "15e8d3920b7c46fa8d21e59374c0b6af"
        #expect(isRandom(digits) && isRandom(digits.uppercased()))
        for text in [
            String(digits.dropLast(2)), digits + "a", digits.replacing("9f", with: "9F"), "0x" + digits, digits + " ",
        ] {
            #expect(!isRandom(text), "\(text)")
        }
    }

    @Test("nearly all random keys are taken for random ones, in every form")
    func random() {
        var failures = [0, 0, 0]
        var generator = SystemRandomNumberGenerator()
        for number in 0..<1_500 {
            let bytes = (0..<(32 + number % 33)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let base64 = Data(bytes).base64EncodedString()
            let names = base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            let hexadecimal = bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            for (index, text) in [base64, names, hexadecimal].enumerated() where !isRandom(text) {
                failures[index] += 1
            }
        }
        #expect(failures.allSatisfy { $0 < 30 }, "\(failures)")
    }
}
