// The images of a folder as templates in the stamp picker of the Nutrient Web SDK:
//
//	const instance = await NutrientViewer.load({ container, document });
//	await addStamps(NutrientViewer, instance, createClient({ getToken }), folder);
//
// It uses createAttachment and setStampAnnotationTemplates as described in
// https://www.nutrient.io/guides/web/headless/stamp/.

export async function addStamps(NutrientViewer, instance, client, folder) {
	const templates = [];
	for await (const symbols of client.pages("listSymbols", folder, { fields: "id,name" })) {
		for (const { id, name } of symbols) {
			const image = await client.getSymbolImage(id).catch((error) => {
				if (error.status !== 404) throw error;
			});
			if (!image) continue; // the symbol has no image
			const { blob, width, height } = await asBitmap(await image.blob());
			templates.push(new NutrientViewer.Annotations.ImageAnnotation({
				imageAttachmentId: await instance.createAttachment(blob),
				contentType: blob.type,
				description: name,
				boundingBox: new NutrientViewer.Geometry.Rect({ left: 0, top: 0, width, height }),
			}));
		}
	}
	instance.setStampAnnotationTemplates((current) => [...current, ...templates]);
}

// asBitmap returns an image as PNG or JPEG, the formats of image annotations, and its
// size.
async function asBitmap(blob) {
	const image = new Image();
	image.src = URL.createObjectURL(blob);
	await image.decode();
	URL.revokeObjectURL(image.src);
	const { naturalWidth: width, naturalHeight: height } = image;
	if (blob.type !== "image/png" && blob.type !== "image/jpeg") {
		const canvas = Object.assign(document.createElement("canvas"), { width, height });
		canvas.getContext("2d").drawImage(image, 0, 0);
		blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
	}
	return { blob, width, height };
}
