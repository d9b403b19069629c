// swift-tools-version: 6.1
import PackageDescription

/// A package of its own that depends on CipherStore as its users do, in both language modes. `.ci/run` builds and runs
/// it: what compiles here sees the public interface only.
let package = Package(
    name: "Consumer",
    platforms: [.macOS(.v15), .iOS(.v18)],
    dependencies: [.package(name: "CipherStore", path: "../..")],
    targets: [
        .executableTarget(
            name: "ConsumerMode5",
            dependencies: [.product(name: "CipherStore", package: "CipherStore")],
            swiftSettings: [.swiftLanguageMode(.v5)]
        ),
        .executableTarget(
            name: "ConsumerMode6",
            dependencies: [
                .product(name: "CipherStore", package: "CipherStore"),
                .product(name: "StoreTools", package: "CipherStore"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6)]
        ),
        // A service that holds its store against all checks, in Swift Testing and in XCTest.
        .testTarget(
            name: "ConformanceConsumerTests",
            dependencies: [
                .product(name: "CipherStore", package: "CipherStore"),
                .product(name: "EncryptionConformance", package: "CipherStore"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6)]
        ),
    ]
)
